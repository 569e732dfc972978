// The items at a call: as a map of the history, and as a list that draws only the rows in sight.

const ROW = 34;

// What an item belongs to, by the name of its colour in the style sheet and of its class.
const PIECE_COLOURS = { expl: "reading", act: "work", task: "task", work: "outside", yours: "ink" };
const pieceOf = (of, index) => (of.kinds[index] === "u" ? "yours" : of.bars[of.owner[index]]?.type || "work");

function pieceKey(...more) {
  const entries = [["expl", "reading"], ["act", "work, which changes something"], ["work", "neither"], ...more];
  return h("p", { class: "key small" }, entries.map(([piece, text]) => h("span", {}, h("i", { class: `dot ${piece}` }), text)));
}

// The history as lines of text, each item as wide as its tokens, with the colour of its piece of work. Its shape is its state.
function drawMap(canvas, width, now, chosen) {
  const of = session();
  const whole = of.tokens.reduce((sum, value) => sum + value, 0) || 1;
  const lines = clamp(Math.ceil(whole / 4000), 2, width < 600 ? 14 : 10);
  const deep = 11, gap = 4;
  const perLine = whole / lines;
  let held = 0;
  for (let index = 0; index < now.known; index++) held += of.tokens[index];
  // Lines of which nothing has happened yet are left out.
  const used = clamp(Math.ceil(held / perLine), 1, lines);
  const context = sharpen(canvas, width, used * (deep + gap));
  const paint = Object.fromEntries(Object.entries(PIECE_COLOURS).map(([piece, name]) => [piece, colour(name)]));
  const ink = colour("ink"), track = colour("track");
  context.lineWidth = 1.5;
  let at = 0;
  const spans = [];
  for (let index = 0; index < of.tokens.length; index++) {
    const stop = at + of.tokens[index];
    const state = now.state[index];
    context.fillStyle = context.strokeStyle = state === NOT_YET ? track : paint[pieceOf(of, index)];
    stripe(context, at, stop, perLine, width, deep, gap, state, ink);
    if (index === chosen) spans.push([at, stop]);
    at = stop;
  }
  context.strokeStyle = ink;
  context.lineWidth = 2;
  for (const [from, to] of spans) outline(context, from, to, perLine, width, deep, gap);
  return { perLine, deep, gap };
}

function stripe(context, from, to, perLine, width, deep, gap, state, ink) {
  for (let line = Math.floor(from / perLine); line * perLine < to; line++) {
    const left = (Math.max(from, line * perLine) - line * perLine) / perLine * width;
    const right = (Math.min(to, (line + 1) * perLine) - line * perLine) / perLine * width;
    // A hairline between neighbours, where there is room for one.
    const wide = Math.max(0.6, right - left - (right - left > 3 ? 1 : 0));
    const y = line * (deep + gap);
    if (state === NOT_YET) context.fillRect(left, y + deep - 1.5, right - left + 0.5, 1.5);
    else if (state === GONE) context.fillRect(left, y + deep - 3, wide, 3);
    else if (state === SHORTENED) context.fillRect(left, y + deep / 2, wide, deep / 2);
    else if (state === JUST_GONE && wide > 4) context.strokeRect(left + 0.75, y + 0.75, wide - 1.5, deep - 1.5);
    else if (state === JUST_GONE) context.fillRect(left, y, wide, 1.5);
    else context.fillRect(left, y, wide, deep);
    if (state !== NEW) continue;
    context.fillStyle = ink;
    context.fillRect(left, y + deep + 0.5, wide, 2);
    context.fillStyle = context.strokeStyle;
  }
}

function outline(context, from, to, perLine, width, deep, gap) {
  const line = Math.floor(from / perLine);
  const left = (from - line * perLine) / perLine * width;
  const right = Math.min(width, (to - line * perLine) / perLine * width);
  context.strokeRect(Math.max(1, left - 1), line * (deep + gap) + 1, Math.max(4, right - left), deep - 1);
}

// Rows: what stands aside, then turns and episodes as heads with their items below.
function rowsOf(of, now, filter, toggled) {
  const rows = now.aside.map((aside) => ({ aside }));
  let group = null;
  for (let index = 0; index < now.known; index++) {
    const key = of.kinds[index] === "u" ? `u${index}` : of.kinds[index] === "s" || (of.kinds[index] === "n" && of.owner[index] < 0) ? "s" : of.owner[index] >= 0 ? `e${of.owner[index]}` : "p";
    if (!group || group.key !== key) {
      if (group) close(rows, group, filter, toggled);
      group = { key, first: index, items: [], count: 0, kept: 0, tokens: 0, keptTokens: 0, states: new Set() };
    }
    const state = now.state[index];
    group.count += 1;
    group.tokens += of.tokens[index];
    group.states.add(state);
    if (state <= SHORTENED) { group.kept += 1; group.keptTokens += state === SHORTENED ? now.placed.get(index).tokens : of.tokens[index]; }
    if (!filter || filter === state) group.items.push(index);
  }
  if (group) close(rows, group, filter, toggled);
  return bundled(rows, toggled);
}

// Many episodes in a row that are gone make one line, which opens to show them.
function bundled(rows, toggled) {
  const found = [];
  for (let at = 0; at < rows.length;) {
    let stop = at;
    while (stop < rows.length && rows[stop].group && rows[stop].group.folded && rows[stop].group.kept === 0) stop += 1;
    const groups = rows.slice(at, stop).map((row) => row.group);
    if (groups.length > 3) {
      const key = `b${groups[0].first}`, open = toggled.has(key);
      found.push({ bundle: { key, open, count: groups.length, tokens: groups.reduce((sum, group) => sum + group.tokens, 0) } });
      if (open) found.push(...rows.slice(at, stop));
    } else found.push(...rows.slice(at, stop));
    if (stop === at) found.push(rows[stop++]);
    at = stop;
  }
  return found;
}

function close(rows, group, filter, toggled) {
  if (!group.items.length) return;
  const lone = group.key[0] === "u" || group.key[0] === "s";
  // What has been gone for a while is one line, unless it was asked for.
  const gone = !filter && group.states.size === 1 && group.states.has(GONE);
  const folded = !lone && toggled.has(`${group.key}.${group.first}`) !== gone;
  group.folded = folded;
  if (!lone) rows.push({ group });
  if (!folded) for (const index of group.items) rows.push({ index, deep: !lone });
}

function itemRow(of, now, row, chosen) {
  if (row.aside) return asideRow(row, chosen);
  if (row.bundle) return bundleRow(row.bundle);
  if (row.group) return groupRow(of, row.group);
  const index = row.index, kind = of.kinds[index], state = STATES[now.state[index]];
  const tool = of.tool[index] >= 0 ? of.tools[of.tool[index]] : "";
  const words = beginning(textOf(of.text + index));
  return h("div", { class: `row item st-${state.key} ${pieceOf(of, index)}${row.deep ? " deep" : ""}${chosen === index ? " chosen" : ""}`, role: "treeitem", "aria-level": row.deep ? 2 : 1, id: `item-${index}`, "data-index": index, "aria-selected": String(chosen === index) },
    h("i", { class: "mark", "aria-hidden": "true" }),
    h("span", { class: `kind kind-${kind}` }, KINDS[kind]),
    tool && h("span", { class: "tool" }, tool),
    h("span", { class: "words" }, words),
    h("span", { class: "tokens" }, n0(of.tokens[index])),
    h("span", { class: "state" }, state.label));
}

function bundleRow(bundle) {
  return h("div", { class: "row group", role: "treeitem", "aria-level": 1, "aria-expanded": String(bundle.open), "data-group": bundle.key },
    h("span", { class: "fold", "aria-hidden": "true" }, bundle.open ? "▾" : "▸"),
    h("span", { class: "words faint" }, `${many(bundle.count, "piece")} in a row`),
    h("span", { class: "tokens" }, n0(bundle.tokens)),
    h("span", { class: "state" }, "gone"));
}

function groupRow(of, group) {
  const bar = group.key[0] === "e" ? of.bars[Number(group.key.slice(1))] : null;
  const name = bar ? episodeName(bar) : "Before the first of them";
  const left = group.kept === group.count ? "all in view" : group.kept ? `${n0(group.keptTokens)} in view` : "gone";
  return h("div", { class: "row group", role: "treeitem", "aria-level": 1, "aria-expanded": String(!group.folded), "data-group": `${group.key}.${group.first}` },
    h("span", { class: "fold", "aria-hidden": "true" }, group.folded ? "▸" : "▾"),
    bar && h("i", { class: `dot ${bar.type}`, "aria-hidden": "true" }),
    h("span", { class: "words" }, bar && bar.name && bar.type !== "work" && h("span", { class: "etype" }, `${episodeType(bar)} `), name),
    h("span", { class: "tokens" }, n0(group.tokens)),
    h("span", { class: "state" }, left));
}

function asideRow(row, chosen) {
  return h("div", { class: `row item st-view${chosen === row.aside ? " chosen" : ""}`, role: "treeitem", "aria-level": 1, "data-aside": row.aside.text },
    h("i", { class: "mark", "aria-hidden": "true" }),
    h("span", { class: "kind" }, row.aside.is === "summary" ? "summary" : "index"),
    h("span", { class: "words" }, beginning(textOf(row.aside.text)) || "stands for what it replaced"),
    h("span", { class: "tokens" }, n0(row.aside.tokens)),
    h("span", { class: "state" }, "in view"));
}

// A list that holds any number of rows and draws those in sight.
function virtualList(render) {
  const inner = h("div", { class: "inner" });
  const box = h("div", { class: "list", tabindex: 0, role: "tree", "aria-label": "Items of the history; up and down arrow keys choose one" }, inner);
  let rows = [];
  let drawn = "";
  const draw = (force) => {
    const first = Math.max(0, Math.floor(box.scrollTop / ROW) - 4);
    const stop = Math.min(rows.length, first + Math.ceil(box.clientHeight / ROW) + 8);
    const which = `${first}-${stop}`;
    if (!force && which === drawn) return;
    drawn = which;
    inner.replaceChildren(...rows.slice(first, stop).map((row, at) => styled(render(row), { top: `${(first + at) * ROW}px` })));
  };
  box.addEventListener("scroll", () => draw(false), { passive: true });
  onWidth(box, () => draw(true));
  return {
    box,
    set(next) { rows = next; inner.style.height = `${rows.length * ROW}px`; draw(true); },
    rows: () => rows,
    draw: () => draw(true),
    reveal(number, always) {
      const y = number * ROW;
      if (always || y < box.scrollTop || y + ROW > box.scrollTop + box.clientHeight) box.scrollTop = Math.max(0, y - box.clientHeight / 2 + ROW);
    },
  };
}
