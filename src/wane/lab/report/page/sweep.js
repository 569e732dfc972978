// Cost against what stayed in view: a line for each strategy, a point for each budget.

const WHISKERS = "A whisker shows how much more a summary may have held. The ringed points are on the frontier: none is both cheaper and keeps more in view.";

const STAR = "M0 -9L2.6 -3.2L9 -2.8L4.2 1.4L5.6 7.6L0 4.2L-5.6 7.6L-4.2 1.4L-9 -2.8L-2.6 -3.2z";
// A shape for each family of strategies, so that it can be told without its colour: around 0, 10 wide.
const FAMILY = {
  none: "M0 -5a5 5 0 1 0 .01 0z",
  cwl: "M0 -5a5 5 0 1 0 .01 0z",
  truncate: "M-4.5 -4.5h9v9h-9z",
  compact: "M0 -5.5L5.5 4.5H-5.5z",
  "clear-tools": "M0 -6L6 0L0 6L-6 0z",
  fold: "M0 5.5L5.5 -4.5H-5.5z",
  paper: "M-1.8 -5.5h3.6v3.7h3.7v3.6h-3.7v3.7h-3.6v-3.7h-3.7v-3.6h3.7z",
};
const shapeOf = (name) => FAMILY[AKIN[name] || name] || FAMILY.none;

// How much was kept: of the names that later calls used, or, where a budget is tuned, of these and of edited files.
const keptOf = (point) => point.kept ?? point.values.recall;

function sweepSection() {
  const tuned = data.report === "tune";
  const lead = tuned ? "Up and to the left is better. A point is a budget with a policy; the line has the recommended policy at each budget, and the star is the recommendation." : `Up and to the left is better. A point is a strategy at a budget, which stands beside it; the star is the recommendation. ${WHISKERS}`;
  const body = section("sweep", tuned ? "What each budget costs, and what stays in view" : "Cost and what stayed in view, by budget", lead);
  const extremes = tuned ? "" : outcomeOfSweep();
  if (extremes) body.append(h("p", { class: "small extremes" }, extremes));
  costPlot(body, data.points, data.report);
}

// In one sentence, what a sweep shows.
function outcomeOfSweep() {
  const best = data.points.filter((point) => point.best).sort((one, other) => costOf(one) - costOf(other));
  if (!best.length) return "";
  const tell = (point) => `${titleOf(point)}, ${UNITS.usd(costOf(point))} with ${percent(keptOf(point))} of what was needed still in view`;
  const [cheapest, dearest] = [best[0], best[best.length - 1]];
  return cheapest === dearest ? `Cheapest, and nothing keeps more: ${tell(cheapest)}.` : `Cheapest: ${tell(cheapest)}. Keeping more costs more. Most: ${tell(dearest)}.`;
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
  // What the sentence above names is in the chart from the first.
  const best = new Set(every.filter((point) => point.best).map((point) => point.strategy));
  const hidden = data.report === "sweep" ? new Set([...hiddenAtFirst(names)].filter((name) => !best.has(name))) : data.report === "tune" ? new Set(names.filter((name) => !["cwl", "compact", OTHERS].includes(name))) : new Set();
  const legend = h("div", { class: "legend", role: "group", "aria-label": "Strategies shown" }, names.map((name) => legendButton(name, hidden, () => draw())));
  const box = h("div", { class: "plot" });
  const tip = h("div", { class: "tip", role: "status", hidden: true });
  body.append(legend, h("div", { class: "plotbox" }, box, tip), h("div", { class: "tools" }, savers(() => box.firstChild, file)));
  const draw = () => { if (box.clientWidth) box.replaceChildren(drawSweep(every, box.clientWidth, names.filter((name) => !hidden.has(name)), tip, box)); };
  onWidth(box, draw);
  draw();
}

// Whether a summary may have held more of what was needed.
const hasWhisker = (point) => point.kept === undefined && point.recall_at_best - point.values.recall > 0.0005;
const costOf = (point) => point.values.total_usd;
const budgetText = (point) => (point.budget === null ? "no budget" : short(point.budget));
const titleOf = (point) => (point.budget === null ? shown(point.strategy) : `${shown(point.strategy)} at ${budgetText(point)}`);

function drawSweep(every, width, names, tip, box) {
  const points = every.filter((point) => names.includes(point.strategy) && keptOf(point) !== null);
  const height = clamp(width * 0.58, 340, 520);
  const costs = points.map(costOf), recalls = points.flatMap((point) => [keptOf(point), point.kept ?? point.recall_at_best]);
  const left = 54, right = 24, top = 30, bottom = 44;
  const least = Math.min(...recalls, 1), most = Math.max(...costs, 0);
  const fewest = Math.min(...costs), far = fewest > 0 && most / fewest > 4;
  // Points need no zero: what lies apart is drawn apart.
  const spread = most - fewest || most || 1, from = Math.max(0, fewest - 0.12 * spread), upTo = most + 0.12 * spread;
  const x = far ? logarithmic(fewest / 1.15, most * 1.12, left, width - right) : scale(from, upTo, left, width - right);
  const marks = far ? logTicks(fewest / 1.15, most * 1.12) : ticks(from, upTo, width / 110);
  const y = scale(Math.max(0, least - 0.04), 1.01, height - bottom, top);
  const node = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": `Cost against what stayed in view: ${many(points.length, "point")}, each with its figures` });
  node.append(svg("g", { class: "grid" },
    ticks(Math.max(0, least - 0.04), 1.01, 5).map((value) => [svg("line", { x1: left, x2: width - right, y1: y(value), y2: y(value) }), svg("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, `${round1(100 * value)}%`)]),
    marks.filter((value, at) => !at || x(value) - x(marks[at - 1]) > 52).map((value) => svg("text", { x: x(value), y: height - bottom + 18, "text-anchor": "middle" }, UNITS.usd(value)))));
  node.append(svg("text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle", class: "title" }, `cost with fetching again${far ? ", log scale" : ""}`));
  const held = data.report === "tune" ? ["of names that later calls used and of edited files", "of names and edited files"] : ["of what later calls used", "of what was used later"];
  node.append(svg("text", { x: left, y: 11, class: "title" }, `still in view, ${held[width < 500 ? 1 : 0]}`));
  // By cost, and so by recall too: a staircase.
  const frontier = points.filter((point) => point.best).sort((one, other) => costOf(one) - costOf(other) || keptOf(one) - keptOf(other));
  if (frontier.length > 1) {
    const steps = frontier.map((point, at) => (at ? `H${x(costOf(point))}V${y(keptOf(point))}` : `M${x(costOf(point))} ${y(keptOf(point))}`)).join("");
    node.append(svg("path", { d: steps, class: "frontier" }));
  }
  // Last what is recommended, so that nothing covers it.
  for (const name of [...names].sort((one, other) => (one === "cwl") - (other === "cwl"))) node.append(sweepSeries(points.filter((point) => point.strategy === name), x, y, tip, box, width));
  const spot = (point) => [x(costOf(point)), y(keptOf(point))];
  const drawn = names.filter((name) => name !== OTHERS).map((name) => points.filter((point) => point.strategy === name).map(spot));
  const whiskers = points.filter(hasWhisker).map((point) => [spot(point), [x(costOf(point)), y(point.recall_at_best)]]);
  const stairs = frontier.slice(1).flatMap((point, at) => [[spot(frontier[at]), [x(costOf(point)), y(keptOf(frontier[at]))]], [[x(costOf(point)), y(keptOf(frontier[at]))], spot(point)]]);
  const place = labeller(points.map(spot), [...drawn, ...whiskers, ...stairs], { from: left, to: width, above: 22 });
  // Wane's labels first: where there is room for a few, they are those.
  for (const name of [...names].sort((one, other) => (other === "cwl") - (one === "cwl"))) {
    const own = points.filter((point) => point.strategy === name);
    // The ends first, then what is between them, where there is room.
    for (const point of new Set([...own.filter((it) => it.chosen), own[own.length - 1], own[0], ...own])) {
      if (name === OTHERS) continue;
      const named = point === own[own.length - 1] || own.length === 1;
      const text = point.chosen ? `recommended: ${budgetText(point)}` : own.length > 1 ? (named && data.report === "sweep" ? `${shown(name)} ${budgetText(point)}` : budgetText(point)) : shown(name);
      node.append(place(text, ...spot(point), own.length === 1 && ["cwl", "none"].includes(name)) || (own.length > 1 && place(budgetText(point), ...spot(point))) || "");
    }
  }
  return node;
}

function sweepSeries(points, x, y, tip, box, width) {
  const { stroke, dash } = look(points[0].strategy);
  const place = (point) => [x(costOf(point)), y(keptOf(point))];
  const group = svg("g", {});
  if (points[0].strategy !== OTHERS) group.append(styled(svg("path", { d: `M${points.map((point) => place(point).map((value) => value.toFixed(1)).join(" ")).join("L")}`, class: "series", "stroke-dasharray": dash || null }), { stroke }));
  points.forEach((point) => {
    const [cx, cy] = place(point);
    if (hasWhisker(point)) group.append(styled(svg("line", { x1: cx, x2: cx, y1: cy, y2: y(point.recall_at_best), class: "whisker", "stroke-dasharray": "3 3" }), { stroke }));
    if (point.best && point.strategy !== OTHERS && !point.chosen) group.append(styled(svg("circle", { cx, cy, r: width < 500 ? 6.5 : 8, class: "ring" }), { stroke }));
    const text = `${titleOf(point)}: ${UNITS.usd(costOf(point))}, ${percent(keptOf(point))} still in view${point.chosen ? ", recommended" : ""}`;
    const dot = styled(svg("path", { d: point.chosen ? STAR : shapeOf(point.strategy), transform: `translate(${cx.toFixed(1)},${cy.toFixed(1)})${width < 500 ? " scale(0.8)" : ""}`, tabindex: 0, role: "img", "aria-label": text, class: "dotmark" }), point.strategy === OTHERS || point.strategy === "none" ? { fill: "var(--surface)", stroke } : { fill: stroke });
    const show = () => { tip.hidden = false; tip.replaceChildren(...sweepTip(point)); styled(tip, { left: `${clamp(cx + 12, 0, Math.max(0, box.clientWidth - tip.offsetWidth))}px`, top: `${Math.max(0, cy - tip.offsetHeight - 12)}px` }); };
    for (const kind of ["pointerenter", "focus", "click"]) dot.addEventListener(kind, show);
    for (const kind of ["pointerleave", "blur"]) dot.addEventListener(kind, () => { tip.hidden = true; });
    group.append(dot);
  });
  return group;
}

function sweepTip(point) {
  if (point.policy) return [h("div", { class: "tiphead" }, titleOf(point)), h("div", {}, point.policy), h("div", {}, `${UNITS.usd(costOf(point))}, ${percent(keptOf(point))} still in view`)];
  const keys = ["cost_usd", "again_usd", "total_usd", "recall", "grounding", "view_tokens", "over"];
  const rows = data.columns.filter((column) => keys.includes(column.key)).map((column) => h("tr", {}, h("th", { scope: "row" }, column.title), h("td", {}, cell(point, column))));
  return [h("div", { class: "tiphead" }, titleOf(point)), h("table", {}, h("tbody", {}, rows))];
}

const OTHERS = "other policies";

// How many rows a table of points has room for.
const ROWS_IN_SIGHT = 12;

function sweepTable() {
  const body = section("points", "All points", "The frontier's points are marked.");
  const columns = data.columns.filter((column) => data.points.some((point) => point.values[column.key]));
  const policies = data.points.some((point) => point.policy);
  const head = h("tr", {}, h("th", { scope: "col", class: "name" }, "Strategy"), h("th", { scope: "col", class: "mid" }, "Budget"), policies && h("th", { scope: "col", class: "mid text" }, "Policy"), columns.map((column) => h("th", { scope: "col", title: column.help, class: rank(column) }, column.title)));
  // Wane first: the others are there to compare with it.
  const ordered = [...data.points].sort((one, other) => (other.strategy === "cwl") - (one.strategy === "cwl"));
  const list = ordered.map((point) => {
    const budgetIn = (written) => [point.budget === null ? "–" : written(point.budget), point.raised_to && ` (up to ${written(point.raised_to)})`];
    // On a phone the budget and the policy stand below the name.
    const below = point.budget !== null && h("span", { class: "below" }, budgetIn(short), point.policy && `, ${point.policy}`);
    return h("tr", { class: point.best ? "front" : null }, h("th", { scope: "row", class: "name" }, swatchOf(point.strategy), h("span", {}, shown(point.strategy === OTHERS ? "cwl" : point.strategy), point.chosen && " (recommended)"), below), h("td", { class: "mid" }, budgetIn(n0)), policies && h("td", { class: "mid text" }, point.policy || "–"),
      columns.map((column) => h("td", { class: [point.best && ["total_usd", "recall"].includes(column.key) ? "best" : "", rank(column)].filter(Boolean).join(" ") || null }, cell(point, column))));
  });
  const table = h("table", { class: "figures few" }, h("thead", {}, head), h("tbody", {}, list));
  body.append(seg("Columns", [["few", "Main figures"], ["all", "All figures"]], "few", (value) => table.classList.toggle("few", value === "few")));
  if (list.length > ROWS_IN_SIGHT) body.append(h("p", { class: "small scrolls" }, `${n0(list.length)} rows: scroll in the table for all of them.`));
  body.append(h("div", { class: "wide tall", tabindex: 0, role: "region", "aria-label": "All points, scrollable" }, table));
  body.append(h("details", {}, h("summary", {}, "What the columns mean"), h("dl", { class: "glossary" }, data.columns.map((column) => [h("dt", {}, column.title), h("dd", {}, column.help)]))));
}

// What to do with the recommendation.
function tuneSection() {
  if (!data.command) return;
  const body = section("use", "To work with it");
  body.append(h("pre", {}, data.command), h("p", { class: "small" }, "For Wane’s own agent, in .wane.toml or your own config.toml:"), h("pre", {}, data.config));
}

function tuneReasons() {
  const body = section("why", "Why"), rows = data.others;
  body.append(h("div", { class: "reasons" }, data.reasons.map((text) => h("p", {}, text))));
  if (!rows.length) return;
  const heads = ["Only this changed", "Cost", "Kept of what was needed", "Besides"].slice(0, rows.some((row) => row[3]) ? 4 : 3);
  body.append(h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "What else was tried, scrollable" }, h("table", { class: "others" },
    h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, h("th", { scope: "row" }, row[0]), row.slice(1, heads.length).map((text) => h("td", {}, text))))))));
  body.append(h("details", {}, h("summary", {}, "What the settings mean"), h("dl", { class: "glossary" }, Object.entries(data.settings).map(([name, meaning]) => [h("dt", {}, name), h("dd", {}, marked(meaning))]))));
}
