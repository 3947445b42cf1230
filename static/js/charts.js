// Draws the figures of a page: <div class="chart-plot" data-figure="ID"> takes its data and layout from the JSON in
// <script type="application/json" id="ID">. A figure knows no colours: each trace says meta.series, and the style sheet
// says what a series looks like, so a change of theme only draws again.
"use strict";

(() => {
  const CONFIG = {
    displayModeBar: false, // a drag zooms, a double click shows everything again
    showSendToCloud: false,
    plotlyServerURL: "",
    responsive: true,
    locale: document.documentElement.lang,
  };
  // of a language Plotly needs only the way dates are written; numbers look the same
  const MONTHS = Array.from({ length: 12 }, (_, month) => `${month + 1}月`);
  const DAYS = [..."日一二三四五六"].map((day) => `週${day}`);
  const CHINESE = {
    months: MONTHS, shortMonths: MONTHS, days: DAYS, shortDays: DAYS, periods: ["上午", "下午"],
    dateTime: "%Y-%m-%d %H:%M:%S", date: "%Y-%m-%d", time: "%H:%M:%S",
    decimal: ".", thousands: ",", grouping: [3], currency: ["$", ""],
    year: "%Y年", month: "%Y年%-m月", dayMonth: "%-m月%-d日", dayMonthYear: "%Y年%-m月%-d日",
  };
  const CHARACTER_WIDTH = 6.4; // of the 11 px labels, roughly: only decides whether a label gets its words
  const PAPER_WIDTH = 640; // px between the margins of A4 with room to spare, and of US Letter
  const coarse = matchMedia("(pointer: coarse)");

  const look = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  function dressTrace(trace) {
    const series = trace.meta ? trace.meta.series : null;
    const own = series === null ? "series-other" : `series-${series + 1}`;
    const [dash, marker] = (trace.meta?.look ?? []).map((place) => `series-${place + 1}`);
    const color = look(own);
    const hoverlabel = { bordercolor: color };
    const role = trace.meta ? trace.meta.role : undefined;
    if (role === "edge") return { ...trace, line: { width: 0 }, hoverinfo: "skip", hovertemplate: undefined };
    if (role === "band") {
      const fillcolor = series === null ? look("band") : `${color}26`; // Plotly reads no color-mix
      return { fill: "tonexty", ...trace, line: { width: 0, color }, fillcolor, hoverinfo: "skip", hovertemplate: undefined };
    }
    if (role === "roof") return { ...trace, hoverlabel, line: { color: series === null ? look("muted") : color, width: series === null ? 1.5 : 1, dash: "5px,4px" } };
    if (trace.type === "bar") return { ...trace, marker: { color }, hoverlabel };
    const many = trace.x.length > 60;
    return {
      ...trace,
      hoverlabel,
      ...(trace.error_x ? { error_x: { ...trace.error_x, type: "data", color, thickness: 1, width: 3 } } : {}),
      ...(trace.error_y ? { error_y: { ...trace.error_y, type: "data", color, thickness: 1, width: 3 } } : {}),
      opacity: series === null ? 0.5 : 1,
      line: { color, width: series === null ? 1 : 2, dash: look(`${dash ?? own}-dash`) },
      marker: { color, symbol: look(`${marker ?? own}-marker`), size: many ? 4 : 7 },
    };
  }

  // What a mark says about itself: a shift for the better or for the worse.
  const judged = (mark) => ({ better: look("good"), worse: look("bad"), note: look("accent") })[mark.name];

  function dressAxis(axis, isUpright) {
    const line = look("line");
    return {
      ...axis,
      title: isUpright ? undefined : { ...axis.title, font: { color: look("muted"), size: 12 }, standoff: 8 },
      gridcolor: line,
      zerolinecolor: line,
      linecolor: line,
      tickfont: { color: look("muted"), size: 11 },
      ticklabelstandoff: 4,
    };
  }

  function dressLayout(layout, width) {
    const dressed = { ...layout };
    const text = look("text");
    const muted = look("muted");
    for (const key of Object.keys(layout)) {
      if (/^[xy]axis\d*$/.test(key)) dressed[key] = dressAxis(layout[key], key.startsWith("y"));
    }
    const isOnTop = (note) => note.hovertext && note.yref === "paper";
    const rows = rowsOfEvents((layout.annotations || []).filter(isOnTop), layout, width);
    const named = namesOfMarks(layout, width);
    dressed.shapes = (layout.shapes || []).map((shape) =>
      shape.type === "rect"
        ? { ...shape, fillcolor: look("line"), opacity: 0.5, line: { width: 0 }, layer: "below" }
        : { ...shape, line: { color: judged(shape) || muted, width: 1, dash: judged(shape) ? "solid" : "dot" } },
    );
    dressed.annotations = (layout.annotations || []).filter((note) => !isOnTop(note) || rows.has(note)).map((note) => ({
      xanchor: "left",
      ...note,
      text: named.get(note) ?? note.text,
      font: { color: judged(note) || (note.hovertext && !isOnTop(note) ? text : muted), size: 11 },
      ...(isOnTop(note)
        ? { yshift: 20 + 14 * rows.get(note), xanchor: "center" }
        : note.hovertext ? { yshift: 4 } : { bgcolor: look("surface"), borderpad: 2 }),
    }));
    for (const key of Object.keys(layout)) {
      if (key.startsWith("yaxis")) dressed.annotations.push(uprightTitle(layout[key]));
    }
    return {
      ...dressed,
      autosize: true,
      dragmode: coarse.matches ? false : layout.dragmode || "zoom", // a finger on a chart must still scroll the page
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: look("font"), size: 12, color: text },
      margin: { l: 48, r: 8, t: rows.size ? 34 + 14 * (1 + Math.max(...rows.values())) : 28, b: layout.xaxis.title ? (layout.xaxis.type === "date" ? 58 : 44) : 36 }, // days take two lines
      hoverlabel: {
        bgcolor: look("surface"),
        font: { family: look("font"), size: 12, color: text },
        align: "left",
        namelength: -1,
      },
    };
  }

  // Titles of value axes stand upright above their panels: they are read without turning the head, and all line up.
  function uprightTitle(axis) {
    return {
      text: axis.title.text,
      xref: "paper",
      yref: "paper",
      x: 0,
      y: (axis.domain || [0, 1])[1],
      xanchor: "left",
      yanchor: "bottom",
      xshift: -44,
      yshift: 6,
      showarrow: false,
      font: { color: look("muted"), size: 11, weight: 600 }, // <b> would be an inline style
    };
  }

  // Events above all panels: each has its label in the lowest of three rows with room for it; what is judged comes
  // first, and what has no room is left to the list above the chart.
  function rowsOfEvents(notes, layout, width) {
    const rows = new Map();
    if (!notes.length) return rows;
    const place = placeOf(layout, width);
    const taken = [[], [], []];
    const rank = (note) => (judged(note) ? 0 : 1);
    for (const note of [...notes].sort((one, other) => rank(one) - rank(other))) {
      const half = (note.text.length * CHARACTER_WIDTH) / 2 + 4;
      const at = place(note);
      if (at - half < -40 || at + half > width - 50) continue;
      const row = taken.findIndex((spans) => spans.every(([from, to]) => at + half < from || at - half > to));
      if (row < 0) continue;
      taken[row].push([at - half, at + half]);
      rows.set(note, row);
    }
    return rows;
  }

  const placeOf = (layout, width) => {
    const [from, to] = layout.xaxis.range.map((stamp) => Date.parse(`${stamp}Z`));
    return (note) => ((Date.parse(`${note.x}Z`) - from) / (to - from)) * (width - 56);
  };

  // Lettered marks: each says its words too where the next one, or the edge, leaves room for them, and its letter
  // where that has room; those that stand too close are named together, D–L, by the last of them.
  function namesOfMarks(layout, width) {
    const names = new Map();
    const notes = (layout.annotations || []).filter((note) => note.hovertext && note.yref !== "paper");
    if (!notes.length) return names;
    const place = placeOf(layout, width);
    const fits = (text, room) => text.length * CHARACTER_WIDTH + 4 < room;
    for (const yref of new Set(notes.map((note) => note.yref))) {
      const beside = notes.filter((note) => note.yref === yref).sort((one, other) => place(one) - place(other));
      let crowd = null;
      beside.forEach((note, i) => {
        const next = i + 1 < beside.length ? beside[i + 1] : null;
        const room = (next ? place(next) : width - 60) - place(note);
        if (next && !fits(note.text, room)) {
          crowd ??= note.text;
          names.set(note, "");
          return;
        }
        const own = crowd ? `${crowd}–${note.text}` : note.text;
        const [first, ...more] = note.hovertext.split("; ");
        const wordings = [note.hovertext, more.length ? `${first}; …` : first].map((words) => `${own} ${words}`);
        names.set(note, crowd ? own : wordings.find((words) => fits(words, room)) || own);
        crowd = null;
      });
    }
    return names;
  }

  function draw(plot, width = null) {
    const figure = JSON.parse(document.getElementById(plot.dataset.figure).textContent);
    const hidden = new Set(JSON.parse(plot.dataset.hidden || "[]"));
    const isHidden = (trace) => hidden.has(trace.meta?.key);
    const data = figure.data.map((trace) => ({ ...dressTrace(trace), ...(isHidden(trace) ? { visible: false } : {}) }));
    const layout = dressLayout(figure.layout, width || plot.clientWidth);
    return Plotly.react(plot, data, width ? { ...layout, autosize: false, width } : layout, CONFIG);
  }

  // On paper charts are light, and as wide as the paper: a picture made for the window would be cut off.
  function print() {
    const { theme } = document.documentElement.dataset;
    document.documentElement.dataset.theme = "light";
    drawn().forEach((plot) => draw(plot, PAPER_WIDTH));
    addEventListener("afterprint", () => {
      if (theme) document.documentElement.dataset.theme = theme;
      else delete document.documentElement.dataset.theme;
      drawn().forEach((plot) => draw(plot));
    }, { once: true });
  }

  function visit(point) {
    const path = point.customdata;
    if (typeof path === "string" && path.startsWith("/")) location.assign(path);
  }

  // Arrow keys walk along a series and between them, Enter opens the run. What was measured comes before ceilings.
  function walkable(plot) {
    const role = (trace) => Number(Boolean((trace.meta || {}).role));
    const order = plot.data
      .map((trace, place) => place)
      .filter((place) => plot.data[place].hoverinfo !== "skip" && plot.data[place].visible !== false)
      .sort((one, other) => role(plot.data[one]) - role(plot.data[other]));
    let at = 0;
    let index = null;
    plot.addEventListener("keydown", (event) => {
      const trace = plot.data[order[at]];
      const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      if (step) {
        event.preventDefault();
        at = (at + step[0] + order.length) % order.length;
        const next = plot.data[order[at]];
        const last = next.x.length - 1;
        index = index === null ? last : Math.max(0, Math.min(last, index + step[1]));
        while (next.y[index] === null) index += step[1] || 1; // a gap, which no line begins or ends with
        Plotly.Fx.hover(plot, [{ curveNumber: order[at], pointNumber: index }], subplotOf(next));
      } else if (event.key === "Enter" && index !== null) {
        visit({ customdata: (trace.customdata || [])[index] });
      } else if (event.key === "Escape") {
        Plotly.Fx.unhover(plot);
      }
    });
    plot.addEventListener("blur", () => Plotly.Fx.unhover(plot));
  }

  const subplotOf = (trace) => `${trace.xaxis || "x"}${trace.yaxis || "y"}`;

  async function start(plot) {
    try {
      await draw(plot);
      plot.on("plotly_click", (event) => visit(event.points[0]));
      walkable(plot);
      plot.dispatchEvent(new CustomEvent("chartdrawn", { bubbles: true }));
    } catch (error) {
      console.warn(error);
      plot.dispatchEvent(new CustomEvent("chartfailed", { bubbles: true }));
    }
  }

  const drawn = () => document.querySelectorAll(".js-plotly-plot[data-figure]");
  const startAll = () => document.querySelectorAll("[data-figure]:not(.js-plotly-plot, .chart-failed)").forEach(start);

  window.Plotly?.register({ moduleType: "locale", name: "zh-Hant", dictionary: {}, format: CHINESE });
  startAll();
  document.addEventListener("htmx:after:swap", startAll);
  document.addEventListener("linestoggled", (event) => draw(event.target));
  document.addEventListener("themechange", () => drawn().forEach((plot) => draw(plot)));
  addEventListener("beforeprint", print);
})();
