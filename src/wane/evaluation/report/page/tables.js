// The tables: a row for each arm.

function armTable(body, label, columns, rows, of) {
  const shown = columns.filter(([, , text]) => rows.some((row) => text(of(row))));
  const head = h("tr", {}, h("th", { scope: "col", class: "name" }, "Arm"), shown.map(([name, help]) => h("th", { scope: "col", title: help }, name)));
  const list = rows.map((row) => {
    const { stroke, dash } = drawn(row);
    return h("tr", {}, h("th", { scope: "row", class: "name" }, swatch(stroke, dash), h("span", {}, named(row))), shown.map(([, , text]) => h("td", {}, text(of(row)) || "–")));
  });
  wideTable(body, label, head, list);
  body.append(h("details", {}, h("summary", {}, "What the columns mean"), h("dl", { class: "glossary" }, shown.map(([name, help]) => [h("dt", {}, name), h("dd", {}, help)]))));
}

function wideTable(body, label, head, list) {
  body.append(h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": `${label}, scrollable` }, h("table", { class: "figures arms" }, h("thead", {}, head), h("tbody", {}, list))));
}

function paperTable() {
  const body = section("paper", "The paper's rows", `As published: ${data.paper.model} at ${n0(data.paper.budget)} tokens, without variance or the runs' own scores. Chance is how far apart two equal arms of that size land in 95 of 100 cases, by the spread of the trials here.`);
  const head = h("tr", {}, ["Benchmark", "Tasks × runs", "Single", "Isolated", "Difference", "Chance"].map((name, at) => h("th", { scope: "col", class: at ? null : "name" }, name)));
  const list = data.paper.rows.map((row) => h("tr", {}, h("th", { scope: "row", class: "name" }, row.title),
    [`${row.tasks ?? "?"} × ${row.runs}`, `${pointsOf(row.single)}%`, `${pointsOf(row.isolated)}%`, signed(row.single - row.isolated, 2), row.chance === null ? "–" : `±${(100 * row.chance).toFixed(1)}`].map((text) => h("td", {}, text))));
  wideTable(body, "The paper's rows", head, list);
}

function runsTable() {
  const body = section("runs", "Runs", "What each run was told before its first trial.");
  const head = h("tr", {}, ["Run", "Begun", "Order", "Margin", "Versions"].map((name, at) => h("th", { scope: "col", class: at ? null : "name" }, name)));
  const list = data.runs.map((run) => h("tr", {}, h("th", { scope: "row", class: "name" }, `${named(run.arm)} · run ${run.run}`),
    [run.created.slice(0, 10), run.seed === null ? "as given" : `seed ${run.seed}`, `±${trim(100 * run.margin)}`, Object.entries(run.versions).map((pair) => pair.join(" ")).join(", ") || "–"].map((text) => h("td", {}, text))));
  wideTable(body, "Runs", head, list);
  const lines = [...new Set(data.runs.map((run) => run.new_environment))];
  for (const line of lines) body.append(h("p", { class: "small" }, line ? `Told of a new environment: “${line}”` : "Not told of a new environment."));
}
