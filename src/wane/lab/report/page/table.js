// The table of strategies: sortable, best values marked, columns explained; five columns, or all.

const FEW = ["total_usd", "recall", "grounding", "turns", "breaks"];
// A phone has room for two of them.
const FEWEST = FEW.slice(0, 2);
const rank = (column) => (FEWEST.includes(column.key) ? null : FEW.includes(column.key) ? "mid" : "more");

function strategyTable() {
  const body = section(
    "strategies",
    "Strategies",
    "Each strategy over the same recorded work. The agent's output is as recorded: what it would have done " +
      "otherwise is not known, only what it would have missed.",
  );
  const rows = data.strategies;
  const columns = data.columns.filter((column) => rows.some((row) => row.values[column.key]) || column.key === "over");
  const head = h("tr", {}, h("th", { scope: "col", class: "name" }, "Strategy"));
  const list = h("tbody");
  let sorted = null;
  for (const column of columns) {
    const button = h("button", { type: "button", title: column.help, onclick: () => sort(column) }, column.title);
    head.append(h("th", { scope: "col", "data-key": column.key, class: rank(column) }, button));
  }
  const sort = (column) => {
    const falling = sorted === column.key ? -1 : 1;
    sorted = falling === 1 ? column.key : null;
    const value = (row) => row.values[column.key] ?? Infinity;
    list.append(...[...rows].sort((a, b) => falling * (value(a) - value(b))).map((row) => row.node));
    for (const cell of head.children) {
      const state = cell.dataset.key === column.key ? (falling === 1 ? "ascending" : "descending") : null;
      if (state) cell.setAttribute("aria-sort", state); else cell.removeAttribute("aria-sort");
    }
  };
  for (const row of rows) {
    row.node = strategyRow(row, columns);
    list.append(row.node);
  }
  const table = h("table", { class: "figures few" }, h("thead", {}, head), list);
  body.append(seg("Columns", [["few", "Main figures"], ["all", "All figures"]], "few", (value) => table.classList.toggle("few", value === "few")));
  body.append(h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Strategies, scrollable" }, table));
  const marked = rows.some((row) => (row.best || []).length);
  const best = h("span", {}, h("b", { class: "best" }, "Best values"), " are marked, among strategies whose requests were within the budget on average.");
  const none = "No strategy kept within the budget on average, or none differs, so that none is marked as best.";
  const raised = rows.filter((row) => row.raised_to).map((row) => `${shown(row.name)} worked with up to ${n0(row.raised_to)} tokens, as the budget left too little room for the work; the other strategies were held to it. So no value is marked as best.`);
  body.append(h("p", { class: "small" }, raised.length ? raised.join(" ") : marked ? best : none));
  body.append(
    h("details", {}, h("summary", {}, "What the columns mean"),
      h("dl", { class: "glossary" }, columns.map((column) => [h("dt", {}, column.title), h("dd", {}, column.help)]))),
  );
  body.append(
    h("details", {}, h("summary", {}, "What the strategies do"),
      h("dl", { class: "glossary" }, rows.map((row) => [h("dt", {}, shown(row.name)), h("dd", {}, row.what)]))),
  );
}

function strategyRow(row, columns) {
  const name = h("th", { scope: "row", class: "name" }, swatchOf(row.name), h("span", { title: row.what }, shown(row.name)));
  return h("tr", { "data-strategy": row.name }, name, columns.map((column) => {
    const best = (row.best || []).includes(column.key);
    const over = column.key === "over" && row.over;
    const classes = [best ? "best" : over ? "over" : "", rank(column)].filter(Boolean).join(" ");
    return h("td", { class: classes || null }, cell(row, column),
      best && h("span", { class: "away" }, " (best)"));
  }));
}

function cell(row, column) {
  const value = row.values[column.key];
  const most = row.recall_at_best;
  if (column.key === "recall" && most !== undefined && most - value > 0.0005) {
    return `${percent(value).slice(0, -1)}–${percent(most)}`;
  }
  const bound = row.bounds?.includes(column.key) && value !== null;
  return `${bound ? "≥" : ""}${written(value, column.unit)}`;
}
