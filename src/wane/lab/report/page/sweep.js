// Cost against what stayed in view: a line for each strategy, a point for each budget.

const WHISKERS = "A whisker shows how much more a summary may have held. The ringed points are on the frontier: none is both cheaper and keeps more in view.";

function sweepSection() {
  const body = section("sweep", "Cost and what stayed in view, by budget", `Up and to the left is better. A point is a strategy at a budget. ${WHISKERS}`);
  costPlot(body, data.points, "sweep");
  sweepTable();
}

// The strategies of a comparison, which all had one budget.
function comparedPlot() {
  const rows = data.strategies.filter((row) => row.values.recall !== null && row.values.total_usd !== null && row.recall_at_best !== undefined);
  if (rows.length < 2) return;
  const body = section("plot", "What it costs, and what stays in view", `Up and to the left is better; a point is a strategy. ${WHISKERS}`);
  const points = rows.map((row) => ({ strategy: row.name, budget: null, values: row.values, recall_at_best: row.recall_at_best }));
  const beats = (one, other) => costOf(one) <= costOf(other) && one.values.recall >= other.values.recall && (costOf(one) < costOf(other) || one.values.recall > other.values.recall);
  for (const point of points) point.best = !points.some((other) => beats(other, point));
  costPlot(body, points, "strategies");
}

function costPlot(body, every, file) {
  const names = [...new Set(every.map((point) => point.strategy))];
  const hidden = file === "sweep" ? hiddenAtFirst(names) : new Set();
  const legend = h("div", { class: "legend", role: "group", "aria-label": "Strategies shown" }, names.map((name) => legendButton(name, hidden, () => draw())));
  const box = h("div", { class: "plot" });
  const tip = h("div", { class: "tip", role: "status", hidden: true });
  body.append(h("div", { class: "tools" }, legend, savers(() => box.firstChild, file)), h("div", { class: "plotbox" }, box, tip));
  const draw = () => { if (box.clientWidth) box.replaceChildren(drawSweep(every, box.clientWidth, names.filter((name) => !hidden.has(name)), tip, box)); };
  onWidth(box, draw);
  draw();
}

const costOf = (point) => point.values.total_usd;
const budgetText = (point) => (point.budget === null ? "no budget" : short(point.budget));
const titleOf = (point) => (point.budget === null ? shown(point.strategy) : `${shown(point.strategy)}, ${budgetText(point)}`);

function drawSweep(every, width, names, tip, box) {
  const points = every.filter((point) => names.includes(point.strategy) && point.values.recall !== null);
  const height = clamp(width * 0.58, 340, 520);
  const costs = points.map(costOf), recalls = points.flatMap((point) => [point.values.recall, point.recall_at_best]);
  const left = 54, right = 24, top = 16, bottom = 44;
  const least = Math.min(...recalls, 1), most = Math.max(...costs, 0);
  const fewest = Math.min(...costs), far = fewest > 0 && most / fewest > 4;
  const x = far ? logarithmic(fewest / 1.15, most * 1.12, left, width - right) : scale(0, most * 1.06 || 1, left, width - right);
  const marks = far ? logTicks(fewest / 1.15, most * 1.12) : ticks(0, most * 1.06 || 1, width / 110);
  const y = scale(Math.max(0, least - 0.04), 1.01, height - bottom, top);
  const node = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Cost against what stayed in view" });
  node.append(svg("g", { class: "grid" },
    ticks(Math.max(0, least - 0.04), 1.01, 5).map((value) => [svg("line", { x1: left, x2: width - right, y1: y(value), y2: y(value) }), svg("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, `${round1(100 * value)}%`)]),
    marks.map((value) => svg("text", { x: x(value), y: height - bottom + 18, "text-anchor": "middle" }, UNITS.usd(value)))));
  node.append(svg("text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle", class: "title" }, `cost with fetching again${far ? ", log scale" : ""}`));
  node.append(svg("text", { x: left, y: 10, class: "title" }, "still in view, of what later calls used"));
  // By cost, and so by recall too: a staircase.
  const frontier = points.filter((point) => point.best).sort((one, other) => costOf(one) - costOf(other) || one.values.recall - other.values.recall);
  if (frontier.length > 1) {
    const steps = frontier.map((point, at) => (at ? `H${x(costOf(point))}V${y(point.values.recall)}` : `M${x(costOf(point))} ${y(point.values.recall)}`)).join("");
    node.append(svg("path", { d: steps, class: "frontier" }));
  }
  for (const name of names) node.append(sweepSeries(points.filter((point) => point.strategy === name), x, y, tip, box, width));
  const place = labeller(points.map((point) => [x(costOf(point)), y(point.values.recall)]));
  for (const name of names) {
    const own = points.filter((point) => point.strategy === name);
    // The ends first, then what is between them, where there is room.
    for (const point of new Set([own[0], own[own.length - 1], ...own])) {
      const text = own.length > 1 ? budgetText(point) : shown(name);
      node.append(place(text, x(costOf(point)), y(point.values.recall)) || "");
    }
  }
  return node;
}

function sweepSeries(points, x, y, tip, box, width) {
  const { stroke, dash } = look(points[0].strategy);
  const place = (point) => [x(costOf(point)), y(point.values.recall)];
  const group = svg("g", {});
  group.append(styled(svg("path", { d: `M${points.map((point) => place(point).map((value) => value.toFixed(1)).join(" ")).join("L")}`, class: "series", "stroke-dasharray": dash || null }), { stroke }));
  points.forEach((point) => {
    const [cx, cy] = place(point);
    const whisker = point.recall_at_best - point.values.recall > 0.0005;
    if (whisker) group.append(styled(svg("line", { x1: cx, x2: cx, y1: cy, y2: y(point.recall_at_best), class: "whisker" }), { stroke }));
    if (point.best) group.append(styled(svg("circle", { cx, cy, r: width < 500 ? 6.5 : 8, class: "ring" }), { stroke }));
    const text = `${titleOf(point)}: ${UNITS.usd(costOf(point))}, ${percent(point.values.recall)} still in view`;
    const dot = styled(svg("circle", { cx, cy, r: width < 500 ? 4 : 5, tabindex: 0, role: "img", "aria-label": text, class: "dotmark" }), { fill: stroke });
    const show = () => { tip.hidden = false; tip.replaceChildren(...sweepTip(point)); styled(tip, { left: `${clamp(cx + 12, 0, Math.max(0, box.clientWidth - tip.offsetWidth))}px`, top: `${Math.max(0, cy - tip.offsetHeight - 12)}px` }); };
    for (const kind of ["pointerenter", "focus", "click"]) dot.addEventListener(kind, show);
    for (const kind of ["pointerleave", "blur"]) dot.addEventListener(kind, () => { tip.hidden = true; });
    group.append(dot);
  });
  return group;
}

function sweepTip(point) {
  const keys = ["cost_usd", "again_usd", "total_usd", "recall", "grounding", "view_tokens", "over"];
  const rows = data.columns.filter((column) => keys.includes(column.key)).map((column) => h("tr", {}, h("th", { scope: "row" }, column.title), h("td", {}, cell(point, column))));
  return [h("div", { class: "tiphead" }, titleOf(point)), h("table", {}, h("tbody", {}, rows))];
}

function sweepTable() {
  const body = section("points", "All points", "The frontier's points are marked.");
  const columns = data.columns.filter((column) => data.points.some((point) => point.values[column.key]));
  const head = h("tr", {}, h("th", { scope: "col", class: "name" }, "Strategy"), h("th", { scope: "col" }, "Budget"), columns.map((column) => h("th", { scope: "col", title: column.help }, column.title)));
  const list = data.points.map((point) => {
    const { stroke, dash } = look(point.strategy);
    return h("tr", { class: point.best ? "front" : null }, h("th", { scope: "row", class: "name" }, swatch(stroke, dash), h("span", {}, shown(point.strategy))), h("td", {}, point.budget === null ? "–" : n0(point.budget)),
      columns.map((column) => h("td", { class: point.best && ["total_usd", "recall"].includes(column.key) ? "best" : null }, cell(point, column))));
  });
  body.append(h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "All points, scrollable" }, h("table", { class: "figures" }, h("thead", {}, head), h("tbody", {}, list))));
  body.append(h("details", {}, h("summary", {}, "What the columns mean"), h("dl", { class: "glossary" }, data.columns.map((column) => [h("dt", {}, column.title), h("dd", {}, column.help)]))));
}
