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

  // Without JavaScript a form of filters has a button; with it, changes are enough.
  for (const element of document.querySelectorAll("[data-without-js]")) element.hidden = true;
})();
