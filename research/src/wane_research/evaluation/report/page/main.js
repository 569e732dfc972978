// Puts the page together.

function heading() {
  main.append(h("section", { class: "intro" }, h("h1", {}, data.title), h("dl", { class: "facts" }, data.facts.map(([label, value]) => h("div", {}, h("dt", {}, label), h("dd", {}, value)))),
    data.remarks.length > 0 && h("div", { class: "note" }, h("p", {}, "What is incomplete or was passed over:"), h("ul", {}, data.remarks.map((line) => h("li", {}, line))))));
}

function limitsSection() {
  const body = section("limits", "What this cannot show");
  body.append(h("ul", { class: "limits" }, data.cannot_show.map((it) => h("li", {}, h("b", {}, it.of), `: ${it.text}`))));
}

function tookSection() {
  armTable(section("took", "What it took", "Means of a run; the peak is of all runs. ≥: some trials are missing, or the figure is not known of them, and only the others are in it."), "What it took", TOOK, data.rows, (row) => row);
}

function markedSection() {
  const rows = data.rows.filter((row) => row.annotations && data.annotated.includes(row.strategy));
  if (!rows.length) return;
  armTable(section("marks", "How the agent marked its work", "From the journals of all trials that have one, where the strategy goes by episodes."), "How the agent marked its work", MARKED, rows, (row) => row.annotations);
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
paperTable();
runsTable();
startTheme();
