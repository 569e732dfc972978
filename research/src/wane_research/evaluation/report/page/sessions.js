// What happens along a session: the score by position, and the view by call; and what a budget costs and brings.

function legendOf(rows) {
  return h("p", { class: "small key" }, rows.map((row) => {
    const { stroke, dash } = drawn(row);
    return h("span", { class: "entry" }, swatch(stroke, dash), named(row));
  }));
}

function frame(node, { left, right, top, bottom, width, height }, x, xs, y, ys, words) {
  node.append(svg("g", { class: "grid" },
    ys.map((value) => [svg("line", { x1: left, x2: width - right, y1: y(value), y2: y(value) }), svg("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, words.y(value))]),
    xs.map((value) => svg("text", { x: x(value), y: height - bottom + 18, "text-anchor": "middle" }, words.x(value)))));
  node.append(svg("text", { x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle", class: "title" }, words.below));
  node.append(svg("text", { x: 2, y: top - 16, class: "title" }, words.above));
}

const around = (width, height) => ({ left: 48, right: 16, top: 32, bottom: 42, width, height });
const joined = (points) => `M${points.map(([px, py]) => `${px.toFixed(1)} ${py.toFixed(1)}`).join("L")}`;

function positionSection() {
  const single = data.rows.filter((row) => row.protocol === "single");
  const rows = (single.length ? single : data.rows).filter((row) => row.windows.length > 1);
  if (!rows.length) return;
  const body = section("positions", "Score along the session", "Each point is the mean of ten positions; the last may be of fewer. The broken line is what isolated sessions score on the same tasks: a session that falls below it towards the end loses by its length.");
  plotBox(body, (width) => drawPositions(width, rows));
  body.append(legendOf(rows));
}

function drawPositions(width, rows) {
  const place = around(width, clamp(width * 0.42, 260, 400)), { left, right, top, bottom, height } = place;
  const last = Math.max(...rows.flatMap((row) => row.windows.map((it) => it.last)));
  const values = rows.flatMap((row) => row.windows.flatMap((it) => [it.score, it.other ?? it.score]));
  const [low, high] = inside([Math.min(...values) - 0.05, Math.max(...values) + 0.05]);
  const x = scale(1, last, left, width - right), y = scale(low, high, height - bottom, top), node = picture(width, height, "Score by position");
  frame(node, place, x, ticks(1, last, width / 90), y, ticks(low, high, 5), { x: n0, y: (value) => `${round1(100 * value)}%`, below: "position in the session", above: "score" });
  for (const row of rows) {
    const { stroke } = drawn(row), middle = (it) => x((it.first + it.last) / 2);
    if (row.windows.every((it) => it.other !== null)) node.append(styled(svg("path", { d: joined(row.windows.map((it) => [middle(it), y(it.other)])), class: "series other", "stroke-dasharray": DASHES[1] }), { stroke }));
    node.append(styled(svg("path", { d: joined(row.windows.map((it) => [middle(it), y(it.score)])), class: "series looked-at" }), { stroke }));
    for (const it of row.windows) node.append(dot(row, middle(it), y(it.score), `${named(row)}, positions ${it.first} to ${it.last}: ${percentOf(it.score)} of ${many(it.trials, "trial")}${it.other === null ? "" : `; isolated ${percentOf(it.other)}`}`));
  }
  return node;
}

function viewsOfSessions() {
  if (!data.views.length) return;
  const body = section("views", "View over the calls", "Tokens of each request, as the provider reported them, of the sessions that go through all tasks. The dashed line is the budget; ticks below are passes.");
  plotBox(body, drawViews);
  body.append(legendOf(data.rows.filter((row) => data.views.some((view) => named(view) === named(row)))));
}

function drawViews(width) {
  const place = around(width, clamp(width * 0.42, 260, 400)), { left, right, top, bottom, height } = place;
  const calls = Math.max(...data.views.map((view) => view.tokens.length)), budgets = [...new Set(data.views.map((view) => view.budget).filter(Boolean))];
  const high = 1.05 * Math.max(...budgets, ...data.views.map((view) => view.tokens.reduce((a, b) => Math.max(a, b), 0)));
  const x = scale(1, Math.max(2, calls), left, width - right), y = scale(0, high, height - bottom, top), node = picture(width, height, "View over the calls");
  frame(node, place, x, ticks(1, calls, width / 90), y, ticks(0, high, 5), { x: n0, y: short, below: "model call", above: "tokens" });
  data.views.forEach((view) => {
    const { stroke } = drawn(view);
    node.append(styled(svg("path", { d: path(view.tokens, (at) => x(at + 1), y), class: "series" }, title(`${named(view)}, run ${view.run}`)), { stroke }));
    const rug = view.passes.map((at) => `M${x(at + 1).toFixed(1)} ${height - bottom}v6`).join("");
    if (rug) node.append(styled(svg("path", { d: rug, class: "rug" }), { stroke }));
  });
  node.append(svg("g", { class: "budget" }, budgets.map((budget) => svg("line", { x1: left, x2: width - right, y1: y(budget), y2: y(budget) }))));
  return node;
}

function budgetSection() {
  const rows = data.rows.filter((row) => row.budget !== null);
  if (new Set(rows.map((row) => row.budget)).size < 2) return;
  const body = section("budgets", "Cost and score against the budget", "A line for each strategy and protocol; level lines are arms without a budget.");
  const panels = h("div", { class: "panels" });
  body.append(panels);
  for (const [label, value, text] of [["score", (row) => row.score, (it) => `${round1(100 * it)}%`], ["dollars a run", (row) => row.cost_per_run_usd, (it) => `$${round1(it)}`]]) {
    if (!rows.some((row) => value(row) !== null)) continue;
    const panel = h("div");
    panels.append(panel);
    plotBox(panel, (width) => drawBudgets(width, rows, label, value, text));
  }
  body.append(legendOf(data.rows));
}

function drawBudgets(width, rows, label, value, text) {
  const place = around(width, clamp(width * 0.6, 240, 340)), { left, right, top, bottom, height } = place;
  const all = data.rows.filter((row) => value(row) !== null), shown = all.filter((row) => row.budget !== null);
  const budgets = shown.map((row) => row.budget), values = all.map(value), room = 0.12 * (Math.max(...values) - Math.min(...values)) || 0.05 * Math.max(...values) || 1;
  const low = Math.max(0, Math.min(...values) - room), high = Math.max(...values) + room;
  const least = 0.9 * Math.min(...budgets), greatest = 1.06 * Math.max(...budgets);
  const x = scale(least, greatest, left, width - right), y = scale(low, high, height - bottom, top), node = picture(width, height, `${label} against the budget`);
  frame(node, place, x, ticks(least, greatest, width / 100), y, ticks(low, high, 5), { x: short, y: text, below: "budget, tokens", above: label });
  for (const name of new Set(shown.map(seriesOf))) {
    const line = shown.filter((row) => seriesOf(row) === name);
    const { stroke, dash } = drawn(line[0]);
    line.sort((a, b) => a.budget - b.budget);
    node.append(styled(svg("path", { d: joined(line.map((row) => [x(row.budget), y(value(row))])), class: "series", "stroke-dasharray": dash || null }), { stroke }));
    for (const row of line) node.append(dot(row, x(row.budget), y(value(row)), `${named(row)}: ${text(value(row))}`));
  }
  for (const row of all.filter((it) => it.budget === null)) {
    const { stroke, dash } = drawn(row);
    node.append(styled(svg("line", { x1: left, x2: width - right, y1: y(value(row)), y2: y(value(row)), class: "series", "stroke-dasharray": dash || null }, title(`${named(row)}: ${text(value(row))}`)), { stroke }));
  }
  return node;
}

const seriesOf = (row) => [row.benchmark, row.model, row.strategy, row.annotate, row.protocol].join("\n");
