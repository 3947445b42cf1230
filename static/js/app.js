// Tiny things. Every page works without them.
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

  // A progress stream says `done` once: the page then shows what the run became.
  document.addEventListener("done", (event) => {
    if (event.target.matches("[data-reload-when-done]")) location.reload();
  });

  // A chart that cannot be drawn says so, and its numbers are opened in its place. When the page has loaded, every chart
  // has been begun: one that has not never will be, since its script did not come.
  const fail = (plot) => {
    plot.replaceChildren(plot.dataset.failed);
    plot.classList.add("chart-failed");
    const table = plot.closest("figure")?.querySelector("details");
    if (table) table.open = true;
  };
  document.addEventListener("chartfailed", (event) => fail(event.target));
  addEventListener("load", () => document.querySelectorAll("[data-figure]:not(.js-plotly-plot, .chart-failed)").forEach(fail));

  // Without JavaScript a form of filters has a button; with it, changes are enough.
  for (const element of document.querySelectorAll("[data-without-js]")) element.hidden = true;
})();
