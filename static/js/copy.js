// A button copies the text of the element that it names, without JavaScript a person marks it.
"use strict";

(() => {
  function mark(source) {
    const range = document.createRange();
    range.selectNodeContents(source);
    const selection = getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
  }

  // over plain HTTP browsers give pages no clipboard: what is marked can be copied all the same
  async function copy(source) {
    if (navigator.clipboard) return navigator.clipboard.writeText(source.textContent);
    mark(source);
    if (!document.execCommand("copy")) throw new Error("not copied");
  }

  for (const button of document.querySelectorAll("[data-copy]")) button.hidden = false;
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const source = document.getElementById(button.dataset.copy);
    try {
      await copy(source);
      button.textContent = button.dataset.copied;
    } catch {
      mark(source);
      button.textContent = button.dataset.marked;
    }
  });
})();
