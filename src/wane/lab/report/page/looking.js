// What is looked at, and the session and run that it is of.

// Beside a recorded session, what was simulated is named by what it stands for.
const shown = (name) => {
  if (data.report === "view" && name === "cwl") return "with Wane";
  return isManaged() && name === "recorded" ? "with Wane, as recorded" : WORDS.strategies[name] || name;
};
// Whether Wane was at work when the session was recorded; then what was recorded is Wane's, and the whole history stands beside it.
const isManaged = () => Boolean(data.report === "view" && data.sessions[app.session]?.managed);
const withoutWane = () => (isManaged() ? "none" : "recorded");

// With many strategies, the lines of these are shown at first.
const FIRST = ["none", "compact", "cwl"];
const hiddenAtFirst = (names) => new Set(names.length > 4 && names.includes("cwl") ? names.filter((name) => !FIRST.includes(name)) : []);

// What is looked at: one session, one strategy, one call. Parts listen, and are told what has changed.
const app = { session: 0, run: 0, call: 0, listeners: [] };
const recordedSession = () => data.sessions[app.session];
const run = () => recordedSession().runs[app.run];

// The session, with the episodes that the strategy saw where they are others: inference may heed the budget.
function session() {
  const plain = recordedSession(), it = plain && run();
  if (!it || !it.bars) return plain;
  it.outlined ||= Object.assign(Object.create(plain), { bars: it.bars, owner: it.owner });
  return it.outlined;
}
// Switches between what was recorded and what Wane would have shown.
function runSwitch() {
  const group = h("span", {});
  const fill = () => {
    const names = session().runs.map((it) => it.name);
    group.hidden = names.length < 2;
    group.replaceChildren(seg("Shown", names.map((name) => [name, shown(name)]), run().name, (name) => go({ run: names.indexOf(name) })));
  };
  app.listeners.push((change) => { if ("session" in change || "run" in change) fill(); });
  fill();
  return group;
}
const callCount = () => session().first.length;

function go(change) {
  Object.assign(app, change);
  app.session = clamp(app.session, 0, data.sessions.length - 1);
  app.run = clamp(app.run, 0, recordedSession().runs.length - 1);
  app.call = clamp(Math.round(app.call) || 0, 0, Math.max(0, callCount() - 1));
  for (const listener of app.listeners) listener(change);
}

function callTicks(width) {
  const last = Math.max(1, callCount());
  const marks = ticks(1, last, clamp(width / 90, 2, 12)).filter((value) => value >= 1 && Number.isInteger(value));
  return last > 1 && (!marks.length || marks[0] > 1) ? [1, ...marks.filter((value) => value > last / 20)] : marks;
}
