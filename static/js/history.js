// What a person does with the charts of a history: show and hide lines, and drag a time. Both stand in the address.
"use strict";

(() => {
  const form = document.querySelector(".history-filters");
  const plots = () => document.querySelectorAll("[data-figure]");

  const hiddenLines = () =>
    [...new Set([...document.querySelectorAll('[data-line][aria-pressed="false"]')].map((button) => button.dataset.line))];

  // The address and the form say which lines are hidden, so that neither another filter nor a reload shows them again.
  function remember(hidden) {
    const address = new URL(location.href);
    address.searchParams.delete("hide");
    hidden.forEach((key) => address.searchParams.append("hide", key));
    history.replaceState(history.state, "", address);
    const fields = hidden.map((key) => Object.assign(document.createElement("input"), { type: "hidden", name: "hide", value: key }));
    document.querySelector("[data-hidden-lines]")?.replaceChildren(...fields);
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-line]");
    if (!button) return;
    button.setAttribute("aria-pressed", button.getAttribute("aria-pressed") === "true" ? "false" : "true");
    const hidden = hiddenLines();
    plots().forEach((plot) => {
      plot.dataset.hidden = JSON.stringify(hidden);
      plot.dispatchEvent(new CustomEvent("linestoggled", { bubbles: true }));
    });
    remember(hidden);
  });

  const day = (stamp) => String(stamp).slice(0, 10);

  // A drag chooses whole days, which the server then shows in full detail; a double click shows all time again.
  const followed = new WeakSet();

  function follow(plot) {
    if (!plot.on || followed.has(plot)) return;
    followed.add(plot);
    plot.on("plotly_relayout", (change) => {
      const [from, to] = [change["xaxis.range[0]"], change["xaxis.range[1]"]];
      if (from && to) choose(day(from), day(to));
    });
    plot.on("plotly_doubleclick", () => choose("", ""));
  }

  function choose(since, until) {
    if (!form || (form.elements.since.value === since && form.elements.until.value === until)) return;
    form.elements.since.value = since;
    form.elements.until.value = until;
    form.elements.period.value = "";
    form.requestSubmit();
  }

  document.addEventListener("chartdrawn", (event) => follow(event.target));
  plots().forEach(follow); // those that were drawn before this script came
  // a period takes the place of days that were chosen before
  form?.addEventListener("change", (event) => {
    if (event.target.name === "period") form.elements.since.value = form.elements.until.value = "";
  }, { capture: true });
})();
