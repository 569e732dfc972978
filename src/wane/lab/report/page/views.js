// Window size over calls, a line for each strategy, with what was taken out below.

const MARGIN = { left: 68, right: 14, top: 14, bottom: 22 };
const RUG = 13;

function viewsSection() {
  const lone = data.report === "view";
  const body = section(
    "views",
    "How full the window was",
    "What each request held, in tokens. The rows below show where something was taken out of the view.",
  );
  const hidden = hiddenAtFirst(session().runs.map((it) => it.name));
  let zoomed = true;
  const legend = h("div", { class: "legend", role: "group", "aria-label": "Strategies shown" });
  const box = h("div", { class: "plot", tabindex: 0, role: "img" });
  const tip = h("div", { class: "tip", role: "status" });
  const tools = h("div", { class: "tools" });
  const plot = h("div", { class: "plotbox" }, box, tip);
  // On the page of one session there is nothing to choose but how to save it, and the plot comes first.
  body.append(...(lone ? [legend, plot, tools] : [tools, legend, plot]));
  let at = null;
  let chart = null;

  const draw = () => {
    if (!box.clientWidth) return;
    chart = drawViews(box.clientWidth, hidden, zoomed);
    box.replaceChildren(chart.node);
    box.setAttribute("aria-label", `${chart.summary} Left and right arrow keys read it out call by call.`);
    mark();
  };
  const mark = () => {
    if (!chart) return;
    chart.now.setAttribute("transform", `translate(${chart.x(app.call)},0)`);
    chart.cross.setAttribute("visibility", at === null ? "hidden" : "visible");
    tip.hidden = at === null;
    if (at === null) return;
    const left = chart.x(at);
    chart.cross.setAttribute("transform", `translate(${left},0)`);
    tip.replaceChildren(...readout(at, chart.runs));
    const room = box.clientWidth - tip.offsetWidth;
    const beside = left + 12 > room ? left - tip.offsetWidth - 12 : left + 12;
    styled(tip, { left: `${clamp(beside, 0, Math.max(0, room))}px` });
  };
  const point = (event) => {
    const where = event.clientX - box.getBoundingClientRect().left;
    at = chart ? clamp(Math.round(chart.callAt(where)), 0, callCount() - 1) : null;
    mark();
  };
  box.addEventListener("pointermove", point);
  box.addEventListener("pointerdown", point);
  box.addEventListener("pointerleave", () => { at = null; mark(); });
  box.addEventListener("blur", () => { at = null; mark(); });
  box.addEventListener("click", () => { if (at !== null) go({ call: at }); });
  box.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -50, PageDown: 50, Home: -1e9, End: 1e9 }[event.key];
    if (event.key === "Enter" && at !== null) go({ call: at });
    if (!step) return;
    event.preventDefault();
    at = clamp((at ?? app.call) + step, 0, callCount() - 1);
    mark();
  });

  const rebuild = () => {
    const runs = session().runs;
    tools.replaceChildren();
    const largest = Math.max(...runs.flatMap((it) => it.sizes.length ? [peak(it.sizes)] : [0]));
    const budget = runs.find((it) => it.budget)?.budget, raised = runs.find((it) => it.name === "cwl")?.raised_to;
    if (budget && runs.length > 1 && largest > 1.6 * budget && !lone) {
      zoomed = true;
      const options = [["budget", "Near the budget"], ["all", "All"]];
      tools.append(seg("Scale", options, "budget", (value) => { zoomed = value === "budget"; draw(); }));
    } else zoomed = false;
    tools.append(savers(() => chart.node, `${session().name}-window`));
    legend.replaceChildren();
    if (runs.length > 1) legend.append(...runs.map((it) => legendButton(it.name, hidden, draw)));
    if (budget) legend.append(h("span", { class: "entry" }, swatch("var(--budget)", "5 4"), `budget ${n0(budget)}${raised ? `; Wane worked with up to ${n0(raised)}, as what never leaves left too little room` : ""}`));
    at = null;
    draw();
  };
  app.listeners.push((change) => ("session" in change ? rebuild() : "run" in change ? draw() : mark()));
  onWidth(box, draw);
  rebuild();
}

const peak = (values) => values.reduce((most, value) => Math.max(most, value), 0);

function legendButton(name, hidden, draw) {
  const button = h("button", { type: "button", "aria-pressed": String(!hidden.has(name)), "data-strategy": name });
  button.append(swatchOf(name), shown(name));
  button.addEventListener("click", () => {
    if (hidden.has(name)) hidden.delete(name); else hidden.add(name);
    button.setAttribute("aria-pressed", String(!hidden.has(name)));
    draw();
  });
  return button;
}

function drawViews(width, hidden, zoomed) {
  const runs = session().runs.filter((it) => !hidden.has(it.name));
  const budget = session().runs.find((it) => it.budget)?.budget || null;
  const within = runs.map((it) => peak(it.sizes)).filter((value) => !zoomed || value <= 1.6 * budget);
  const top = Math.max(zoomed ? 1.25 * budget : (budget || 0) * 1.1, ...within.map((value) => value * 1.05), 1);
  const plot = clamp(width * 0.42, 200, 340);
  const bottom = MARGIN.top + plot;
  const rugs = runs.filter((it) => it.ran.length || it.summaries.length);
  const height = bottom + rugs.length * RUG + (rugs.length ? 13 : 0) + MARGIN.bottom;
  const x = scale(0, Math.max(1, callCount() - 1), MARGIN.left, width - MARGIN.right);
  const y = scale(0, top, bottom, MARGIN.top);
  const node = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  const clip = svg("clipPath", { id: "plot-clip" }, svg("rect", { x: MARGIN.left, y: MARGIN.top - 2, width: Math.max(1, width - MARGIN.left), height: plot + 3 }));
  node.append(svg("defs", {}, clip), grid(y, top, width, budget), axis(x, width, height - 6));
  const lines = svg("g", { "clip-path": "url(#plot-clip)", class: callCount() > width ? "dense" : null }, [...runs].sort((a, b) => (a === run()) - (b === run())).map((it) => line(it, x, y)));
  if (data.report === "view") lines.prepend(...runs.filter((it) => it.name === withoutWane()).map((it) => area(it, x, y, bottom)));
  node.append(lines);
  rugs.forEach((it, row) => node.append(rug(it, x, bottom + 15 + row * RUG)));
  const over = runs.filter((it) => peak(it.sizes) > top);
  if (over.length) {
    const text = `above: ${over.map((it) => `${shown(it.name)} to ${short(peak(it.sizes))}`).join(", ")}`;
    node.append(svg("text", { x: width - MARGIN.right, y: MARGIN.top - 4, class: "beyond", "text-anchor": "end" }, fitting(text, width - MARGIN.left)));
  }
  const span = { y1: MARGIN.top, y2: height - MARGIN.bottom };
  const now = svg("line", { ...span, class: "now" });
  const cross = svg("line", { ...span, class: "cross" });
  node.append(now, cross);
  if (budget) node.append(budgetLine(y(budget), width, budget));
  const callAt = scale(MARGIN.left, width - MARGIN.right, 0, Math.max(1, callCount() - 1));
  const figures = runs.map((it) => `${shown(it.name)} at most ${n0(peak(it.sizes))} tokens`).join(", ");
  return { node, x, callAt, now, cross, runs, summary: `Window size over ${many(callCount(), "call")}: ${figures}.` };
}

const fitting = (text, width) => (text.length * 5.8 > width ? `${text.slice(0, Math.max(8, width / 5.8 - 1))}…` : text);

function grid(y, top, width, budget) {
  return svg("g", { class: "grid" }, ticks(0, top, 5).map((value) => [
    svg("line", { x1: MARGIN.left, x2: width - MARGIN.right, y1: y(value), y2: y(value) }),
    !(budget && Math.abs(y(value) - y(budget)) < 15) && svg("text", { x: MARGIN.left - 8, y: y(value) + 4, "text-anchor": "end" }, short(value)),
  ]));
}

function axis(x, width, y) {
  const last = callCount();
  return svg("g", { class: "axis" }, callTicks(width).map((value) => {
    const end = value > last * 0.97;
    return svg("text", { x: x(value - 1), y, "text-anchor": end ? "end" : value === 1 ? "start" : "middle" }, value === 1 ? "call 1" : n0(value));
  }));
}

function line(it, x, y) {
  const { stroke, dash } = look(it.name);
  const node = svg("path", { d: path(it.sizes, x, y), class: "series", "stroke-dasharray": dash || null, "data-strategy": it.name });
  if (it === run()) node.classList.add("looked-at");
  return styled(node, { stroke });
}

function area(it, x, y, bottom) {
  const edge = path(it.sizes, x, y);
  return svg("path", { d: edge && `${edge}L${x(it.sizes.length - 1).toFixed(1)} ${bottom}L${x(0).toFixed(1)} ${bottom}Z`, class: it.name === "none" ? "historyarea" : "recordedarea" });
}

// Its tokens stand at the axis, where no line passes; the legend names it.
function budgetLine(y, width, budget) {
  return svg("g", { class: "budget" },
    svg("line", { x1: MARGIN.left, x2: width - MARGIN.right, y1: y, y2: y }),
    svg("text", { x: MARGIN.left - 8, y: y + 4, "text-anchor": "end" }, short(budget)));
}

function rug(it, x, y) {
  const { stroke } = look(it.name);
  const marks = it.ran.map((call) => `M${x(call).toFixed(1)} ${y - 3}v6`).join("");
  const summaries = it.summaries.map((call) => `M${x(call).toFixed(1)} ${y - 4.5}l4 4.5l-4 4.5l-4 -4.5z`).join("");
  const ticksNode = styled(svg("path", { d: marks, class: "rug" }), { stroke });
  const diamonds = styled(svg("path", { d: summaries }), { fill: stroke });
  const label = svg("text", { x: MARGIN.left - 8, y: y + 3, "text-anchor": "end", class: "ruglabel" }, session().runs.length === 1 ? "taken out" : it.name === "recorded" ? (isManaged() ? "with Wane" : "recorded") : shown(it.name).slice(0, 11));
  return svg("g", {}, label, ticksNode, diamonds);
}

function readout(call, runs) {
  const sorted = [...runs].sort((a, b) => b.sizes[call] - a.sizes[call]);
  const rows = sorted.map((it) => {
    const did = it.summaries.includes(call) ? "summary" : it.ran.includes(call) ? "pass" : "";
    return h("tr", {}, h("th", { scope: "row" }, swatchOf(it.name), shown(it.name)),
      h("td", {}, n0(it.sizes[call])), h("td", { class: "did" }, did));
  });
  return [h("div", { class: "tiphead" }, `Call ${n0(call + 1)}`), h("table", {}, h("tbody", {}, rows))];
}
