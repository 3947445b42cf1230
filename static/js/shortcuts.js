// Keys: g and a letter for a page, n for a new run, / for the search, ? for this list. Not while something is typed.
(() => {
  const dialog = document.getElementById("shortcuts");
  if (!dialog) return;
  const PAUSE_MS = 1500; // a g that nothing follows is forgotten
  let goAt = -Infinity;

  const isTyping = (target) => target.isContentEditable || target.closest("input, select, textarea, [role=textbox]");
  const link = (keys) => dialog.querySelector(`[data-keys="${CSS.escape(keys)}"]`);

  // the search of this page, else that of the runs
  function search() {
    const field = document.querySelector("main input[type=search]");
    if (!field) return link("/")?.click();
    field.closest("details")?.setAttribute("open", "");
    field.focus();
    field.select();
  }

  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (dialog.open && event.key !== "?") return; // Escape closes it
    const isGoing = event.timeStamp - goAt < PAUSE_MS;
    goAt = !isGoing && event.key === "g" ? event.timeStamp : -Infinity;
    if (isGoing) {
      link(`g ${event.key}`)?.click();
    } else if (event.key === "n") {
      link("n")?.click();
    } else if (event.key === "/") {
      event.preventDefault();
      search();
    } else if (event.key === "?") {
      if (dialog.open) dialog.close();
      else dialog.showModal();
    }
  });

  if (location.hash === "#text") search(); // from another page

  for (const button of document.querySelectorAll("[data-shortcuts]")) {
    button.hidden = false;
    button.addEventListener("click", () => dialog.showModal());
  }
})();
