// Scores and differences with their intervals: a line for each arm, its name above it.

const LINE = 46;

function plotBox(body, draw) {
  const box = h("div", { class: "plot" });
  body.append(h("div", { class: "plotbox" }, box));
  const again = () => { if (box.clientWidth) box.replaceChildren(draw(box.clientWidth)); };
  onWidth(box, again);
  again();
}

function picture(width, height, label) {
  return svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
}

function across(node, marks, x, top, bottom, text) {
  node.append(svg("g", { class: "grid" }, marks.map((value) => [svg("line", { x1: x(value), x2: x(value), y1: top, y2: bottom }), svg("text", { x: x(value), y: bottom + 16, "text-anchor": "middle" }, text(value))])));
}

function bar(ends, x, y, stroke, kind) {
  return ends && styled(svg("line", { x1: x(ends[0]), x2: x(ends[1]), y1: y, y2: y, class: kind }), { stroke });
}

const inside = (range) => range.map((value) => clamp(value, 0, 1));
const title = (text) => svg("title", {}, text);

function scoresSection() {
  const body = section("scores", "Scores", "Up to two intervals go with a score. The one clustered by task says how far it would be from other tasks of this kind; the one by run, how far from these tasks run again.");
  armTable(body, "Scores", SCORES, data.rows, (row) => row);
  plotBox(body, drawScores);
  const key = data.rows.some((row) => row.ci95 || row.ci95_by_run) ? [h("span", {}, "Thin: 95% by task. Thick: 95% by run.")] : [];
  if (data.rows.some(published)) key.push(h("span", {}, `Diamonds: the paper's own, of ${data.paper.model}.`));
  if (key.length) body.append(h("p", { class: "small key" }, key));
}

const published = (row) => data.paper.rows.find((it) => it.benchmark === row.benchmark);

function drawScores(width) {
  const rows = data.rows, left = 8, right = 20, top = 8, bottom = top + LINE * rows.length;
  const values = rows.flatMap((row) => [row.score, ...(row.ci95 || []), ...(row.ci95_by_run || []), ...(published(row) ? [published(row)[row.protocol]] : [])]);
  const [low, high] = inside([Math.min(...values) - 0.03, Math.max(...values) + 0.03]);
  const x = scale(low, high, left, width - right), node = picture(width, bottom + 26, "Scores with intervals");
  across(node, ticks(low, high, Math.max(4, width / 110)), x, top, bottom, (value) => `${round1(100 * value)}%`);
  rows.forEach((row, at) => {
    const { stroke } = drawn(row), y = top + LINE * at + 30, paper = published(row);
    node.append(svg("text", { x: left, y: y - 14, class: "armname" }, named(row)));
    node.append(...[bar(row.ci95, x, y, stroke, "thin"), bar(row.ci95_by_run && inside(row.ci95_by_run), x, y, stroke, "thick")].filter(Boolean));
    if (paper) {
      const cx = x(paper[row.protocol]);
      node.append(svg("path", { d: `M${cx} ${y - 6}l6 6l-6 6l-6 -6z`, class: "diamond" }, title(`The paper: ${pointsOf(paper[row.protocol])}%`)));
    }
    node.append(dot(row, x(row.score), y, `${named(row)}: ${percentOf(row.score)}${row.ci95 ? `, 95% ${span(row.ci95)}` : ""}`));
  });
  return node;
}

// A session per task is hollow.
function dot(row, cx, cy, text) {
  const { stroke, dash } = drawn(row);
  return styled(svg("circle", { cx, cy, r: 5, class: "point", tabindex: 0, role: "img", "aria-label": text }, title(text)), { stroke, fill: dash ? "var(--surface)" : stroke });
}

function differencesSection() {
  const rows = data.rows.filter((row) => row.difference && row.difference.ci95);
  if (!rows.length) return;
  const body = section("differences", "Differences to isolated sessions", "Paired by task. The shaded band is the margin, within which a difference is held to be none.");
  plotBox(body, (width) => drawDifferences(width, rows));
  body.append(h("p", { class: "small" }, "Thin: 95%. Thick: 90%, which has to lie within the band for arms to count as equal."));
}

function drawDifferences(width, rows) {
  const left = 8, right = 20, top = 8, bottom = top + LINE * rows.length;
  const far = 1.08 * Math.max(...rows.flatMap((row) => [...row.difference.ci95.map(Math.abs), row.difference.margin]));
  const x = scale(-far, far, left, width - right), node = picture(width, bottom + 26, "Differences with intervals");
  across(node, ticks(-far, far, Math.max(4, width / 110)), x, top, bottom, (value) => (Math.abs(value) < 1e-9 ? "0" : `${value < 0 ? "−" : "+"}${round1(Math.abs(100 * value))}`));
  rows.forEach((row, at) => {
    const it = row.difference, { stroke } = drawn(row), y = top + LINE * at + 30;
    node.append(svg("rect", { x: x(-it.margin), width: x(it.margin) - x(-it.margin), y: y - 10, height: 20, class: "margin" }));
    node.append(svg("text", { x: left, y: y - 14, class: "armname" }, width < 560 ? named(row) : `${named(row)}: ${signed(it.value, 2)}, ${verdict(it)}`));
    node.append(bar(it.ci95, x, y, stroke, "thin"), bar(it.ci90, x, y, stroke, "thick"));
    node.append(dot(row, x(it.value), y, `${signed(it.value, 2)} points, 95% ${signedSpan(it.ci95)}`));
  });
  node.append(svg("line", { x1: x(0), x2: x(0), y1: top, y2: bottom, class: "zero" }));
  return node;
}
