// What was in view at a call, what had gone, and why.

const NOT_YET = 0, IN_VIEW = 1, NEW = 2, SHORTENED = 3, JUST_GONE = 4, GONE = 5;
const STATES = [null,
  { key: "view", label: "in view" },
  { key: "new", label: "new" },
  { key: "short", label: "replaced" },
  { key: "just", label: "just gone" },
  { key: "gone", label: "gone" },
];
const KINDS = { s: "system", u: "user", n: "notice", t: "text", r: "reasoning", c: "call", o: "result" };

function* each(ranges) {
  for (let at = 0; at < (ranges || []).length; at += 2) {
    for (let index = ranges[at]; index < ranges[at] + ranges[at + 1]; index++) yield index;
  }
}

// The state of every item at a call, from the changes up to it.
function stateAt(of, it, call) {
  const size = of.kinds.length;
  const known = of.first[call] ?? size;
  const before = call > 0 ? of.first[call - 1] : 0;
  const state = new Uint8Array(size);
  const change = new Int32Array(size).fill(-1);
  state.fill(IN_VIEW, 0, known);
  state.fill(NEW, before, known);
  const placed = new Map();
  let aside = [];
  (it.changes || []).every((entry, number) => {
    if (entry.call > call) return false;
    for (const index of each(entry.left)) {
      state[index] = entry.call === call ? JUST_GONE : GONE;
      change[index] = number;
    }
    for (const index of each(entry.back)) { state[index] = IN_VIEW; change[index] = -1; }
    for (const [index, tokens, text] of entry.taken || []) {
      if (index >= 0) placed.delete(index);
      else aside = aside.filter((other) => other.tokens !== tokens || other.text !== text);
    }
    for (const [index, tokens, text] of entry.placed || []) {
      if (index < 0) aside.push({ tokens, text, call: entry.call, is: (entry.how || it.how) === "episode" ? "index of what has left" : "summary" });
      else placed.set(index, { tokens, text });
    }
    return true;
  });
  for (const index of placed.keys()) if (state[index] >= JUST_GONE) state[index] = SHORTENED;
  return { state, change, placed, aside, known, totals: totals(of, state, known, placed) };
}

function totals(of, state, known, placed) {
  const sums = STATES.map(() => ({ items: 0, tokens: 0 }));
  for (let index = 0; index < known; index++) {
    const sum = sums[state[index]];
    sum.items += 1;
    sum.tokens += state[index] === SHORTENED ? placed.get(index).tokens : of.tokens[index];
  }
  return sums;
}

// What a request held, by what it is, the most first.
function heldAt(of, now) {
  const held = { "system prompt and tools": of.overhead, "user turns": 0, "opening notices": 0, notices: 0, work: 0 };
  const names = { s: "system prompt and tools", u: "user turns", n: "notices" };
  // Those that no episode owns stand with the system's words, and never go.
  const nameOf = (index) => (of.kinds[index] === "n" && of.owner[index] < 0 ? "opening notices" : names[of.kinds[index]] || "work");
  for (let index = 0; index < now.known; index++) {
    const tokens = now.state[index] === SHORTENED ? now.placed.get(index).tokens : now.state[index] < SHORTENED ? of.tokens[index] : 0;
    held[nameOf(index)] += tokens;
  }
  for (const aside of now.aside) held[aside.is] = (held[aside.is] || 0) + aside.tokens;
  return Object.entries(held).filter(([, tokens]) => tokens).sort((one, other) => other[1] - one[1]);
}

// What of a piece of work goes at a level.
const WHAT_GOES = { reasoning: "its reasoning", bulk: "its searches", artifact: "its reads and commands", remove: "all that was left of it" };

// Which level took an item, for strategies that evict by episode.
function levelsOf(it) {
  if (!it.levels) {
    it.levels = new Map();
    for (const [call, number, level, , removed, person] of it.steps || []) {
      for (const index of each(removed)) it.levels.set(index, { call, number, level, person });
    }
  }
  return it.levels;
}

const called = new WeakMap(); // by episodes, what each is called

function episodeName(bar) {
  const { bars } = session();
  if (!called.has(bars)) called.set(bars, pieceNames(bars.map((it) => it.name)));
  if (bar.name) return `‘${called.get(bars).get(bar.name)}’${bar.abandoned ? " (abandoned)" : ""}`;
  const from = Math.max(1, bar.opened), to = Math.max(from, bar.closed < 0 ? callCount() : bar.closed);
  const calls = from === to ? `call ${n0(from)}` : `calls ${n0(from)} to ${n0(to)}`;
  return `${WORDS.types[bar.type] || "steps"} at ${calls}`;
}
const levelName = (level) => WORDS.levels[data.levels[level]] || data.levels[level];
const episodeType = (bar) => WORDS.types[bar.type] || "neither reading nor work";

function reason(of, it, now, index) {
  const entry = (it.changes || [])[now.change[index]];
  if (!entry) return "";
  const when = `before call ${n0(entry.call + 1)}`;
  const size = it.budget
    ? `as the view was ${n0(entry.before)} of ${n0(it.budget)} tokens`
    : `as the view was ${n0(entry.before)} tokens`;
  const how = entry.how || it.how;
  const taken = levelsOf(it).get(index);
  if (how === "episode" && taken) {
    const bar = of.bars[taken.number];
    const level = data.levels[taken.level];
    const name = bar ? `with ${episodeName(bar)}` : "by a pass";
    if (taken.person) return `You let ${bar ? episodeName(bar) : "its piece of work"} go: this left ${when}.`;
    if (level === "overflow") return `Taken ${name} ${when}, as one of the oldest calls of work that was not finished, ${size}.`;
    if (level === "description") return `The description went too, ${when}, ${size}.`;
    return `Removed ${name} ${when}, with ${WHAT_GOES[level] || level}, ${size}.`;
  }
  const said = {
    episode: `Removed by a pass ${when}, ${size}.`,
    oldest: `Dropped as one of the oldest messages ${when}, ${size}.`,
    summary: `Replaced by a summary, with all around it, ${when}, ${size}.`,
    cleared: `Cleared ${when}, ${size}; a placeholder stands there.`,
    compressed: `Compressed ${when}, ${size}; a model's text stands there, or in a summary.`,
    folded: `Folded ${when}, as the work had ended.`,
    reasoning: `Left out ${when}: reasoning of earlier turns is not sent again.`,
    other: `Taken out by ${shown(it.name)} ${when}, ${size}.`,
  };
  return said[how] || said.other;
}

// A text, shortened or whole; null if the page holds no contents.
function textOf(number) {
  const texts = data.contents_of && data.contents_of[app.session];
  return texts ? texts[number] : null;
}
const beginning = (text) => (text === null ? "" : (typeof text === "string" ? text : text[0]).slice(0, 160).replace(/\s+/g, " ").trim());
const fullText = (text) => (typeof text === "string" ? text : `${text[0]}\n\n[… ${n0(text[1])} characters left out …]\n\n${text[2]}`);

const whatHappened = (of, it, call) =>
  (it.changes || []).filter((entry) => entry.call === call).map((entry) => told(of, it, entry)).filter(Boolean).join(" ");

function told(of, it, entry) {
  const call = entry.call;
  const steps = (it.steps || []).filter((step) => step[0] === call);
  const count = (entry.left || []).reduce((sum, value, at) => sum + (at % 2 ? value : 0), 0);
  let tokens = 0;
  for (const index of each(entry.left)) tokens += of.tokens[index];
  const gone = `${many(count, "item")} of ${n0(tokens)} tokens`;
  const placed = (entry.placed || []).filter(([index]) => index >= 0 || (entry.how || it.how) !== "episode").length;
  if ((entry.how || it.how) === "summary") return `Just before it, ${gone} gave way to a summary.`;
  if (placed && (entry.how || it.how) === "compressed") return `Just before it, ${gone} gave way to ${many(placed, "text")} of a model.`;
  if (placed) return `Just before it, ${gone} ${count === 1 ? "was" : "were"} replaced by ${many(placed, "placeholder")}.`;
  if (!count) return "";
  if (entry.how === "reasoning") return `Just before it, ${gone} were left out: reasoning of earlier turns.`;
  const touched = [...new Set(steps.map((step) => step[1]))];
  const names = touched.slice(0, 3).map((number) => (of.bars[number] ? episodeName(of.bars[number]) : "?"));
  const more = touched.length > 3 ? ` and ${touched.length - 3} more` : "";
  return `Just before it, ${gone} went${touched.length ? ` from ${names.join(", ")}${more}` : ""}.`;
}
