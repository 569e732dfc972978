// Puts the page together.

function heading() {
  main.append(h("section", { class: "head" }, h("h1", {}, data.title), h("dl", { class: "facts" }, data.facts.map(([label, value]) => h("div", {}, h("dt", {}, label), h("dd", {}, value)))),
    data.remarks.length > 0 && h("div", { class: "note" }, h("p", {}, "What is incomplete or was passed over:"), h("ul", {}, data.remarks.map((line) => h("li", {}, line))))));
}

function limitsSection() {
  const body = section("limits", "What this cannot show");
  body.append(h("ul", { class: "limits" }, data.cannot_show.map((it) => h("li", {}, h("b", {}, it.of), `: ${it.text}`))));
}

function tookSection() {
  armTable(section("took", "What it took", "Means of a run; the peak is of all runs. ≥: trials that are missing or have no known figure are left out."), "What it took", TOOK, data.rows, (row) => row);
}

function markedSection() {
  const rows = data.rows.filter((row) => row.annotations && data.annotated.includes(row.strategy));
  if (!rows.length) return;
  armTable(section("marks", "How the agent marked its work", "From the journals of all trials that have one, where the strategy goes by episodes."), "How the agent marked its work", MARKED, rows, (row) => row.annotations);
}

function markingSection() {
  if (!data.marking.length) return;
  const body = section("marking", "What marking does", "Arms that differ only in who marks episodes, paired by task; means of a trial. All intervals hold together at 95%. Would find: the smallest true difference that an experiment like this finds in four of five cases.");
  const heads = ["Arm", "Against", "Measure", "Tasks", "Mean", "Other mean", "Difference", "95%", "Verdict", "Would find"];
  const two = (value) => value.toFixed(2);
  const plus = (value) => `${value < 0 ? "−" : "+"}${two(Math.abs(value))}`;
  const head = h("tr", {}, heads.map((name, at) => h("th", { scope: "col", class: at ? null : "name" }, name)));
  const list = data.marking.map((it) => h("tr", {}, h("th", { scope: "row", class: "name" }, named(it.arm)),
    [`marks by ${it.to.annotate ?? "model"}`, it.measure, n0(it.tasks), two(it.value), two(it.other), plus(it.value - it.other), it.interval ? `${plus(it.interval.low)} … ${plus(it.interval.high)}` : "–", it.told_apart ? "differs" : "not told apart", it.detectable === null ? "–" : `±${two(it.detectable)}`].map((text) => h("td", {}, text))));
  wideTable(body, "What marking does", head, list);
}

heading();
scoresSection();
stepsSection();
differencesSection();
limitsSection();
positionSection();
viewsOfSessions();
tookSection();
budgetSection();
markedSection();
markingSection();
paperTable();
runsTable();
linkWords();
startTheme();
