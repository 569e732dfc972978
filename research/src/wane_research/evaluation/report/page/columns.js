// What the tables show, and in which words.

const percentOf = (share) => `${(100 * share).toFixed(1)}%`;
const pointsOf = (share) => (100 * share).toFixed(2);
const signed = (share, count) => `${share < 0 ? "−" : "+"}${Math.abs(100 * share).toFixed(count)}`;
const span = (ends) => `${(100 * ends[0]).toFixed(1)} – ${(100 * ends[1]).toFixed(1)}`;
const signedSpan = (ends) => `${signed(ends[0], 1)} … ${signed(ends[1], 1)}`;
const counts = (kinds) => Object.entries(kinds).sort((a, b) => b[1] - a[1]).map(([kind, count]) => `${kind} ${n0(count)}`).join(", ");
const verdict = (it) => (it.verdict ? data.verdicts[it.verdict] : `none: ${percentOf(it.not_counted[0])} not counted, and ${percentOf(it.not_counted[1])} in isolation`);
const dollars = (value) => `$${cents.format(value)}`;
const most = (row) => Math.max(1, ...Object.keys(row.pass_at).map(Number));

// Each column: its heading, its meaning, and its text for a row; nothing is shown as a dash.
const SCORES = [
  ["Score", "Mean over tasks of the mean over runs. A trial that ended in an error counts as it was graded, or 0.", (row) => percentOf(row.score)],
  ["95%", "Interval of the score if other tasks of this kind could have been drawn. Near 0 and 100% it is Wilson's.", (row) => row.ci95 && span(row.ci95)],
  ["Tasks × runs", "How many tasks, of how many that the benchmark has if not all were tried, and how many runs through all of them.", (row) => `${n0(row.tasks)}${row.benchmark_tasks > row.tasks ? ` of ${n0(row.benchmark_tasks)}` : ""} × ${n0(row.runs)}`],
  ["SE, tasks", "Standard error clustered by task, in points: for other tasks of this kind.", (row) => row.se_by_task !== null && pointsOf(row.se_by_task)],
  ["SE, runs", "Standard error of the runs' means, in points: for these tasks, run again.", (row) => row.se_by_run !== null && pointsOf(row.se_by_run)],
  ["To isolated", "Score minus that of isolated sessions, paired by task, in points.", (row) => row.difference && signed(row.difference.value, 2)],
  ["Held against", "The isolated sessions, where they are of another strategy or budget.", (row) => row.difference && ["strategy", "budget", "annotate"].some((key) => row.difference.to[key] !== row[key]) && `${strategyOf(row.difference.to)} · ${budgetOf(row.difference.to)}`],
  ["95% of that", "The wider of two intervals: over tasks, paired, and over runs.", (row) => row.difference && row.difference.ci95 && signedSpan(row.difference.ci95)],
  ["Verdict", "At the margin that was set before. Equal: the 90% interval lies within the margin. Better, worse: the 95% interval excludes 0.", (row) => row.difference && verdict(row.difference)],
  ["Drift / 10", "Change of the score in ten positions of the session, tasks held fixed, in points, with its 95% interval.", (row) => row.drift_per_10 !== null && `${signed(row.drift_per_10, 1)}${row.drift_ci95 ? ` (${signedSpan(row.drift_ci95)})` : ""}`],
  ["pass@k", "How likely at least one of k tries solves a task; k is the number of runs.", (row) => most(row) > 1 && percentOf(row.pass_at[most(row)])],
  ["pass^k", "How likely all of k tries solve it.", (row) => most(row) > 1 && percentOf(row.pass_all[most(row)])],
  ["Not counted", "Trials in no score: those that the provider, the environment, the grading or a person ended, and those that were not graded.", (row) => counts(row.not_counted) || "none"],
  ["Errors", "Trials that ended in an error, by kind, and those that were not graded. A timeout is graded all the same.", (row) => counts(row.errors) || "none"],
];

// A figure that leaves trials out is a bound.
const bound = (row, key, text) => {
  const least = row.at_least[key];
  return least !== null && `${row[key] === null || row.missing ? "≥" : ""}${text(least)}`;
};
const perRun = (key, text = short) => (row) => bound(row, key, (value) => text(value / row.runs));
const tenths = (value) => value.toFixed(1);
const TOOK = [
  ["Calls", "Model calls of a run, those for the strategy's own summaries included.", perRun("model_calls")],
  ["Input", "Tokens of all requests of a run, cached ones included.", perRun("input_tokens")],
  ["Cached", "Those of them that the provider's cache served.", perRun("cached_tokens")],
  ["Output", "Tokens of all answers of a run.", perRun("output_tokens")],
  ["Cost", "Dollars of a run, what was broken off included.", (row) => bound(row, "cost_per_run_usd", dollars)],
  ["Broken off", "Dollars of a run for trials that were broken off and tried again.", (row) => row.abandoned_cost_usd !== 0 && bound(row, "abandoned_cost_usd", (value) => dollars(value / row.runs))],
  ["Time / task", "Mean seconds of the trials in which the agent worked, without those lost to a provider that failed, with their number where it is not that of all.", (row) => row.seconds_per_task !== null && `${n0(row.seconds_per_task)} s${row.timed_trials < row.trials ? ` (${n0(row.timed_trials)} of ${n0(row.trials)})` : ""}`],
  ["Passes", "How often a run evicted anything.", perRun("passes", tenths)],
  ["Evicted", "Tokens that left the view in a run.", perRun("evicted_tokens")],
  ["Peak view", "Tokens of the largest request of all runs.", (row) => bound(row, "peak_view", n0)],
  ["Over budget", "Requests of a run over the budget.", perRun("over_budget", tenths)],
  ["Read again", "Results of a run that were fetched again after they had left the view.", perRun("read_again", tenths)],
];

const share = (value) => value !== null && percentOf(value);
const MARKED = [
  ["Marks", "Calls of delimiter.", (it) => n0(it.marks)],
  ["Refused", "Those that were refused, by what was wrong.", (it) => counts(it.refused) || "none"],
  ["Episodes", "Episodes that the agent marked.", (it) => n0(it.episodes)],
  ["Calls each", "Mean tool calls of an episode.", (it) => it.calls_per_episode !== null && it.calls_per_episode.toFixed(1)],
  ["Outside", "Share of the agent's work, in tokens, outside any episode.", (it) => share(it.outside_share)],
  ["Undeclared", "Of the acts that edit a file read in an exploration before, those that do not declare it.", (it) => `${n0(it.acts_undeclared)} of ${n0(it.acts_on_files)}`],
  ["Repeated", "Explorations that fetched results again after they had left the view.", (it) => n0(it.explorations_repeated)],
  ["Recalls", "Calls of recall.", (it) => n0(it.recalls)],
  ["Described", "Of the identifiers that an exploration had shown first and later calls used, those that its description holds.", (it) => share(it.held_share)],
  ["Overflows", "Passes that had to take unfinished work, of all passes.", (it) => `${n0(it.overflows)} of ${n0(it.passes)}`],
];

// An arm by what tells it from the others.
const several = (key) => new Set(data.rows.map((row) => row[key])).size > 1;
const strategyOf = (row) => (row.annotate === null ? row.strategy : `${row.strategy}, marks by ${row.annotate}`);
const budgetOf = (row) => (row.budget === null ? "no budget" : short(row.budget));
function named(row) {
  const parts = ["benchmark", "model"].filter(several).map((key) => row[key]);
  return [...parts, strategyOf(row), budgetOf(row), row.protocol].join(" · ");
}

// One session is a whole line, isolated ones a broken one; the colour is the strategy's, paler for smaller budgets.
const MODELS = ["cwl", "paper", "compact", "truncate", "clear-tools", "fold", "none"];
function drawn(row) {
  // Where all have one strategy, colours tell the models apart.
  const models = [...new Set(data.rows.map((it) => it.model))];
  const key = several("strategy") || models.length < 2 ? row.strategy : MODELS[models.indexOf(row.model) % MODELS.length];
  const budgets = [...new Set(data.rows.map((it) => it.budget ?? Infinity))].sort((a, b) => b - a);
  const full = 100 - (60 * budgets.indexOf(row.budget ?? Infinity)) / Math.max(2, budgets.length);
  return { stroke: `color-mix(in srgb, ${look(key).stroke} ${full}%, var(--surface))`, dash: row.protocol === "isolated" ? DASHES[1] : "" };
}
