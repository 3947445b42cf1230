// The answer as it arrives: `live` events of the progress stream (app/web/progress.py).
(() => {
  const MOST_CHARS = 20000;
  const section = document.getElementById("progress");
  const view = section?.querySelector("[data-live]");
  if (!view) return;
  const part = (name) => view.querySelector(`[data-live-${name}]`);
  const [words, rate, meter, text] = ["words", "rate", "meter", "text"].map(part);

  section.addEventListener("live", (event) => {
    const state = JSON.parse(event.detail.data);
    const isAtEnd = text.scrollHeight - text.scrollTop - text.clientHeight < 24;
    if (state.is_new) text.textContent = "";
    if (state.text) text.append(state.text);
    if (text.textContent.length > MOST_CHARS) text.textContent = text.textContent.slice(-MOST_CHARS);
    words.textContent = state.words;
    rate.textContent = state.rate_words;
    meter.hidden = state.rate === null;
    meter.max = Math.max(meter.max, state.rate ?? 0);
    meter.value = state.rate ?? 0;
    view.hidden = false;
    if (isAtEnd) text.scrollTop = text.scrollHeight;
  });
})();
