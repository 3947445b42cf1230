// Before the first paint: the theme a person chose; without a choice the system's is used.
(() => {
  try {
    const chosen = localStorage.getItem("theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch {
    // a browser that stores nothing follows the system
  }
})();
