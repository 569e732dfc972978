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

// A line for each step of a task of several steps, a column for each arm.
function stepsSection() {
  const rows = data.rows.filter((row) => row.steps.length);
  if (!rows.length) return;
  const body = section("steps", "Steps", "Mean reward of each step of a task of several steps, from 0 to 1.");
  const key = (row, it) => [...(several("benchmark") ? [row.benchmark] : []), it.task, it.step].join(" · ");
  const given = rows.map((row) => new Map(row.steps.map((it) => [key(row, it), it.reward])));
  const head = h("tr", {}, h("th", { scope: "col", class: "name" }, "Step"), rows.map((row) => {
    const { stroke, dash } = drawn(row);
    const parts = named(row).split(" · ");
    return h("th", { scope: "col" }, swatch(stroke, dash), h("span", {}, parts.slice(0, -2).join(" · ")), h("div", {}, parts.slice(-2).join(" · ")));
  }));
  const list = [...new Set(given.flatMap((map) => [...map.keys()]))].map((name) => h("tr", {}, h("th", { scope: "row", class: "name" }, name),
    given.map((map) => h("td", { class: map.get(name) === 0 ? "over" : null }, map.has(name) ? String(Number(map.get(name).toFixed(2))) : "–"))));
  wideTable(body, "Steps", head, list);
}

function paperTable() {
  const body = section("paper", "The paper's rows", `As published: ${data.paper.model} at ${n0(data.paper.budget)} tokens, without variance or the runs' own scores. Chance is how far apart two equal arms of that size land in 95 of 100 cases, by the spread of the trials here.`);
  const head = h("tr", {}, ["Benchmark", "Tasks × runs", "Single", "Isolated", "Difference", "Chance"].map((name, at) => h("th", { scope: "col", class: at ? null : "name" }, name)));
  const list = data.paper.rows.map((row) => h("tr", {}, h("th", { scope: "row", class: "name" }, row.title),
    [`${row.tasks ?? "?"} × ${row.runs}`, `${pointsOf(row.single)}%`, `${pointsOf(row.isolated)}%`, signed(row.single - row.isolated, 2), row.chance === null ? "–" : `±${(100 * row.chance).toFixed(1)}`].map((text) => h("td", {}, text))));
  wideTable(body, "The paper's rows", head, list);
}

// Runs of an arm that were told the same share a line.
function runsTable() {
  const body = section("runs", "Runs", "What each run was told before its first trial.");
  const head = h("tr", {}, ["Arm", "Runs", "Begun", "Orders", "Margin", "Versions"].map((name, at) => h("th", { scope: "col", class: at ? null : "name" }, name)));
  const told = (run) => [named(run.arm), `±${round1(100 * run.margin)}`, Object.entries(run.versions).map((pair) => pair.join(" ")).join(", ") || "–"];
  const alike = new Map();
  for (const run of data.runs) alike.set(told(run).join("\n"), [...(alike.get(told(run).join("\n")) || []), run]);
  const list = [...alike.values()].map((runs) => {
    const [name, margin, versions] = told(runs[0]), days = runs.map((run) => run.created.slice(0, 10)).sort();
    const orders = [...new Set(runs.map((run) => (run.seed === null ? "as given" : `seed ${run.seed}`)))].join(", ").replaceAll(", seed ", ", ");
    const begun = days[0] === days[days.length - 1] ? days[0] : `${days[0]} to ${days[days.length - 1]}`;
    return h("tr", {}, h("th", { scope: "row", class: "name" }, name), [runs.map((run) => run.run).join(", "), begun, orders, margin, versions].map((text) => h("td", {}, text)));
  });
  wideTable(body, "Runs", head, list);
  for (const line of new Set(data.runs.map((run) => run.new_environment))) body.append(h("p", { class: "small" }, line ? `Told of a new environment: “${line}”` : "Not told of a new environment."));
}
