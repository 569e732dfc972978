// Episodes, which the page calls pieces of work, as bars over calls: solid while they go on, then as thick as what is left of them in view.

const LEAST_ROW = 5;
const AXIS = 20;
const BARS = 620;
const NAME = 12;

function episodesSection() {
  const body = section(
    "episodes",
    "Pieces of work, and how long each stayed in view",
    "One row each: solid while it goes on, then pale and as thick as what is still in view of it. Where a row ends, all of it had left the view. Below a task stands what it holds; what was abandoned is hollow.",
    data.report === "view" && runSwitch(),
  );
  const key = pieceKey();
  const tasks = h("span", {}, h("i", { class: "dot task" }), "task");
  const origin = h("span", { class: "small" });
  const canvas = h("canvas");
  const spacer = h("div", { class: "spacer" });
  const box = h("div", { class: "bars", tabindex: 0, role: "application", "aria-label": "Pieces of work; up and down arrow keys choose one" }, spacer, canvas);
  const detail = h("div", { class: "detail", "aria-live": "polite" });
  const hint = h("span", { class: "small" }, "Choose a row to see what became of it.");
  body.append(h("div", { class: "tools" }, key, origin), box, hint, detail);
  const view = { hover: -1, chosen: -1, row: LEAST_ROW };

  const draw = () => {
    const of = session();
    if (!box.clientWidth || !of.bars.length) return;
    view.row = clamp(Math.floor(560 / of.bars.length), LEAST_ROW, 22);
    const height = of.bars.length * view.row + AXIS;
    styled(spacer, { height: `${height}px` });
    styled(box, { height: `${Math.min(height, BARS)}px` });
    drawBars(canvas, box, view, shares(of, run()));
  };
  const rebuild = () => {
    const of = session();
    view.hover = view.chosen = -1;
    box.hidden = !of.bars.length;
    if (of.bars.some((bar) => bar.type === "task")) key.append(tasks); else tasks.remove();
    origin.textContent = of.bars.length
      ? `${counts(of)}, ${of.inferred ? "inferred from the tool calls" : `as the ${of.host ? "program" : "agent"} marked them`}`
      : "No pieces of work were found.";
    box.scrollTop = 0;
    explain();
    draw();
  };
  const explain = () => {
    const number = view.hover >= 0 ? view.hover : view.chosen;
    const bar = session().bars[number];
    hint.hidden = Boolean(bar) || !session().bars.length;
    detail.replaceChildren(...(bar ? episodeDetail(session(), run(), bar) : []));
  };
  const rowAt = (event) => {
    const y = event.clientY - box.getBoundingClientRect().top + box.scrollTop;
    const bar = barRows(session())[Math.floor(y / view.row)];
    return bar ? bar.number : -1;
  };
  const set = (change) => { Object.assign(view, change); explain(); draw(); };
  box.addEventListener("pointermove", (event) => { if (event.pointerType === "mouse" && rowAt(event) !== view.hover) set({ hover: rowAt(event) }); });
  box.addEventListener("pointerleave", () => set({ hover: -1 }));
  box.addEventListener("click", (event) => set({ chosen: rowAt(event) }));
  box.addEventListener("scroll", draw, { passive: true });
  box.addEventListener("keydown", (event) => {
    const step = { ArrowUp: -1, ArrowDown: 1, PageUp: -20, PageDown: 20, Home: -1e9, End: 1e9 }[event.key];
    if (!step) return;
    event.preventDefault();
    const rows = barRows(session());
    const row = clamp(rows.findIndex((bar) => bar.number === view.chosen) + step, 0, rows.length - 1);
    const y = row * view.row;
    if (y < box.scrollTop || y > box.scrollTop + box.clientHeight - AXIS - view.row) box.scrollTop = y - box.clientHeight / 2;
    set({ chosen: rows[row].number, hover: -1 });
  });
  app.listeners.push((change) => {
    if ("session" in change || "run" in change) rebuild();
    if ("call" in change && view.chosen < 0) follow(box, view);
    draw();
  });
  onWidth(box, draw);
  onColours(draw);
  rebuild();
}

function counts(of) {
  const tasks = of.bars.filter((bar) => bar.type === "task").length;
  const pieces = many(of.bars.length - tasks, "piece");
  return tasks ? `${pieces} and ${many(tasks, "task")}` : `${pieces} of work`;
}

// The bars from top to bottom: in order of start, but what a task holds right below it.
function barRows(of) {
  if (of.bars.rows) return of.bars.rows;
  const held = new Map([[-1, []], ...of.bars.map((bar) => [bar.number, []])]);
  for (const bar of of.bars) held.get(bar.task).push(bar);
  const below = (number) => held.get(number).flatMap((bar) => [bar, ...below(bar.number)]);
  const rows = below(-1);
  rows.forEach((bar, row) => { bar.row = row; });
  of.bars.rows = rows;
  return rows;
}

// Scrolls to the episode that goes on at the call.
function follow(box, view) {
  barRows(session());
  const latest = session().bars.filter((bar) => bar.opened <= app.call).at(-1);
  const y = latest ? latest.row * view.row : 0;
  if (y < box.scrollTop || y > box.scrollTop + box.clientHeight - AXIS - view.row) box.scrollTop = Math.max(0, y - box.clientHeight * 0.6);
}

// By episode, the tokens that are left of it in view from which call on.
function shares(of, it) {
  if (it.shares) return it.shares;
  const full = new Array(of.bars.length).fill(0);
  of.owner.forEach((number, index) => { if (number >= 0) full[number] += of.tokens[index]; });
  const lives = full.map((tokens) => ({ tokens, events: [] }));
  const left = [...full];
  for (const entry of it.changes || []) {
    const touched = new Set();
    for (const [sign, indexes] of [[-1, entry.left], [1, entry.back]]) {
      for (const index of each(indexes)) {
        const number = of.owner[index];
        if (number < 0) continue;
        left[number] += sign * of.tokens[index];
        touched.add(number);
      }
    }
    for (const number of touched) lives[number].events.push([entry.call, full[number] ? left[number] / full[number] : 0]);
  }
  it.shares = lives;
  return lives;
}

function drawBars(canvas, box, view, lives) {
  const of = session();
  const width = box.clientWidth, height = Math.min(box.clientHeight, of.bars.length * view.row + AXIS);
  const context = sharpen(canvas, width, height);
  const x = scale(0, Math.max(1, callCount() - 1), MARGIN.left, width - MARGIN.right);
  const top = box.scrollTop;
  const colours = { line: colour("line"), ink: colour("ink"), muted: colour("muted"), accent: colour("accent"), paper: colour("surface"), select: colour("select") };
  const first = Math.max(0, Math.floor(top / view.row)), stop = Math.min(of.bars.length, Math.ceil((top + height) / view.row) + 1);
  const chosen = of.bars[view.hover >= 0 ? view.hover : view.chosen];
  const kin = chosen ? new Set([...chosen.needs, ...of.bars.filter((bar) => bar.needs.includes(chosen.number) || bar.task === chosen.number).map((bar) => bar.number)]) : new Set();
  context.font = "11px system-ui, sans-serif";
  let named = -NAME;
  for (const bar of barRows(of).slice(first, stop)) {
    const number = bar.number, y = bar.row * view.row - top;
    if (chosen && (chosen.number === number || kin.has(number))) {
      context.fillStyle = colours.select;
      context.globalAlpha = chosen.number === number ? 1 : 0.55;
      context.fillRect(0, y, width, view.row);
      context.globalAlpha = 1;
    }
    drawBar(context, bar, lives[number], x, y, view.row, colour(PIECE_COLOURS[bar.type] || "outside"));
  }
  context.fillStyle = colours.ink;
  context.fillRect(Math.round(x(app.call)), 0, 1, height - AXIS);
  // Names stand on top of bars and lines, which they would else touch.
  for (const bar of barRows(of).slice(first, stop)) {
    const y = bar.row * view.row - top;
    if (y + top - named < NAME) continue;
    label(context, bar, lives[bar.number], x, y, view.row, width, colours);
    named = y + top;
  }
  if (chosen) drawKin(context, of, chosen, x, view.row, top, colours.accent);
  context.fillStyle = colours.paper;
  context.fillRect(0, height - AXIS, width, AXIS);
  context.fillStyle = colours.muted;
  for (const value of callTicks(width)) {
    context.textAlign = value > callCount() * 0.97 ? "right" : value === 1 ? "left" : "center";
    context.fillText(value === 1 ? "call 1" : n0(value), x(value - 1), height - 6);
  }
}

function drawBar(context, bar, life, x, y, row, fillStyle) {
  // A task is a line along the episodes that it holds.
  const line = bar.abandoned ? 4 : 2;
  const thick = bar.type === "task" ? line : Math.max(2, row - (row > 8 ? 5 : 1));
  const end = bar.closed < 0 ? callCount() : bar.closed;
  const middle = y + row / 2;
  context.fillStyle = fillStyle;
  const from = x(Math.max(0, bar.opened - 1)), to = Math.max(x(end), from + 2);
  context.fillRect(from, middle - thick / 2, to - from, thick);
  if (bar.abandoned) context.clearRect(from + 1, middle - thick / 2 + 1, to - from - 2, thick - 2);
  context.globalAlpha = 0.36;
  let share = 1, since = to;
  for (const [call, left] of [...life.events, [callCount(), null]]) {
    const until = x(call);
    if (share > 0 && until > since) {
      const deep = Math.max(1, thick * share);
      context.fillRect(since, middle - deep / 2, until - since, deep);
    }
    since = Math.max(since, until);
    share = left;
  }
  context.globalAlpha = 1;
}

const cutName = (text, length) => `${text.slice(0, length).replace(/[\s…]+$/, "")}…`;

// A name stands before its bar or behind all that is left of it, where it fits; else over what is left. On a phone a part of it must do.
function label(context, bar, life, x, y, row, width, colours) {
  const name = episodeName(bar).slice(0, 60);
  const before = x(Math.max(0, bar.opened - 1)) - 10, over = x(bar.closed < 0 ? callCount() : bar.closed) + 6;
  const gone = life.events.find(([, left]) => left <= 0), after = gone ? Math.max(over, x(gone[0]) + 6) : width;
  const fits = (text, room) => context.measureText(text).width <= room;
  let text = name.length > 34 ? cutName(name, 33) : name;
  const behind = fits(text, width - after) ? after : over;
  const first = fits(text, before) || before > width - behind, room = first ? before : width - behind;
  for (let length = text.length - 1; length > 3 && !fits(text, room); length -= 1) text = cutName(name, length - 1);
  context.textAlign = "left";
  const left = first ? before + 4 - context.measureText(text).width : behind;
  context.strokeStyle = colours.paper;
  context.lineWidth = 4;
  context.lineJoin = "round";
  const foot = Math.max(10, y + row / 2 + 4);
  context.strokeText(text, left, foot);
  context.fillStyle = colours.ink;
  context.fillText(text, left, foot);
}

function drawKin(context, of, chosen, x, row, top, strokeStyle) {
  context.strokeStyle = strokeStyle;
  context.lineWidth = 1.25;
  const place = (bar) => [x(bar.opened), bar.row * row + row / 2 - top];
  const pairs = [...chosen.needs.map((number) => [of.bars[number], chosen]), ...of.bars.filter((bar) => bar.needs.includes(chosen.number)).map((bar) => [chosen, bar])];
  for (const [from, to] of pairs) {
    const [x1, y1] = place(from), [x2, y2] = place(to);
    context.beginPath();
    context.moveTo(x1, y1);
    context.bezierCurveTo(x1, (y1 + y2) / 2, x2, (y1 + y2) / 2, x2, y2);
    context.stroke();
  }
}

function episodeDetail(of, it, bar) {
  const life = shares(of, it)[bar.number];
  const held = of.bars.filter((other) => other.task === bar.number);
  const users = of.bars.filter((other) => other.needs.includes(bar.number));
  const from = Math.max(1, bar.opened), to = Math.max(1, bar.closed);
  const calls = bar.closed < 0 ? `from call ${n0(from)} to the end` : from === to ? `call ${n0(from)}` : `calls ${n0(from)} to ${n0(to)}`;
  const facts = `${episodeType(bar)}${bar.inferred ? ", inferred" : ""} · ${calls} · ${n0(life.tokens)} tokens`;
  const rows = (it.steps || []).filter((step) => step[1] === bar.number).map(([call, , level, tokens, removed]) => {
    const count = removed.reduce((sum, value, at) => sum + (at % 2 ? value : 0), 0);
    return h("tr", {}, h("td", {}, h("button", { type: "button", class: "link", onclick: () => jump(call) }, `call ${n0(call + 1)}`)),
      h("td", {}, h("span", { class: `level level-${level}` }, levelName(level))), h("td", { class: "num" }, many(count, "item")), h("td", { class: "num" }, `${n0(tokens)} tokens`));
  });
  const fate = rows.length
    ? h("table", { class: "fate" }, h("caption", {}, it.name === "recorded" ? "What left the view of it" : `What left the view of it ${shown(it.name)}`), h("tbody", {}, rows))
    : h("p", { class: "small" }, fateInWords(it, life));
  return [
    h("h3", {}, h("i", { class: `dot ${bar.type}` }), episodeName(bar)),
    h("p", { class: "small" }, facts),
    bar.description && h("p", {}, bar.description),
    bar.needs.length > 0 && h("p", { class: "small" }, `Builds on ${bar.needs.map((number) => episodeName(of.bars[number])).join(", ")}.`),
    bar.task >= 0 && h("p", { class: "small" }, `In the task ${episodeName(of.bars[bar.task])}.`),
    held.length > 0 && h("p", { class: "small" }, `Holds ${held.map(episodeName).join(", ")}.`),
    users.length > 0 && h("p", { class: "small" }, `Needed by ${users.map(episodeName).join(", ")}.`),
    chosenFor(of, bar),
    fate,
  ].filter(Boolean);
}

// What a person chose for it; of two choices ahead of one call, the later.
const CHOICES = {
  keep: (call) => `kept it in view from call ${call} on`,
  drop: (call) => `let it go before call ${call}`,
  "": (call) => `left it to Wane again from call ${call} on`,
};
function chosenFor(of, bar) {
  const ofBar = (of.choices || []).filter(([, number]) => number === bar.number);
  const last = ofBar.filter(([call], at) => !ofBar[at + 1] || ofBar[at + 1][0] !== call);
  return last.length > 0 && h("p", { class: "small" }, `You ${last.map(([call, , choice]) => CHOICES[choice](n0(call + 1))).join(", and ")}.`);
}

const subject = (it) => (it.name === "recorded" ? "" : `${shown(it.name)}: `);

function fateInWords(it, life) {
  if (!it.changes) return "What was taken out was not recorded in this replay.";
  if (!life.events.length) return `${subject(it)}nothing of it left the view.`;
  const [call, left] = life.events[life.events.length - 1];
  const first = life.events[0][0];
  return left > 0
    ? `${subject(it)}${percent(left)} of its tokens were still in view at the end; the first went before call ${n0(first + 1)}.`
    : `${subject(it)}all of it had gone before call ${n0(call + 1)}; the first before call ${n0(first + 1)}.`;
}

function jump(call) {
  go({ call });
  document.getElementById("scrubber").scrollIntoView({ block: "start" });
}
