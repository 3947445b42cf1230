// The choice of a theme, charts that cannot be drawn, and views that are saved; what a page shows changes by htmx.
(() => {
  const root = document.documentElement;
  const isDark = () =>
    root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;

  for (const button of document.querySelectorAll("[data-theme-toggle]")) {
    button.hidden = false;
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      try {
        localStorage.setItem("theme", root.dataset.theme);
      } catch {
        // the choice lasts until the next page
      }
      document.dispatchEvent(new CustomEvent("themechange"));
    });
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    if (!root.dataset.theme) document.dispatchEvent(new CustomEvent("themechange"));
  });

  // A chart that cannot be drawn says so and opens its data table. Charts that nothing has started when the page has
  // loaded never will be: their script is missing.
  const fail = (plot) => {
    plot.replaceChildren(plot.dataset.failed);
    plot.classList.add("chart-failed");
    const table = plot.closest("figure")?.querySelector("details");
    if (table) table.open = true;
  };
  document.addEventListener("chartfailed", (event) => fail(event.target));
  addEventListener("load", () => document.querySelectorAll("[data-figure]:not(.js-plotly-plot, .chart-failed)").forEach(fail));

  // A saved view is the page as it is now, not as it was loaded.
  document.addEventListener("submit", (event) => {
    if (event.target.matches("[data-current-query]")) event.target.elements.query.value = location.search;
  });
})();
