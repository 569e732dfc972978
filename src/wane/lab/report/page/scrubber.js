// One session, call by call: what was visible, what had gone, and why.

const PLAY_SECONDS = 30;

function scrubberSection() {
  const body = section("scrubber", "Call by call", "What the model saw at one call, what had gone by then, and why. The left and right arrow keys move through the calls.");
  const ui = scrubberParts();
  body.append(ui.bar, ui.status, ui.mapBox, pieceKey(["yours", "your messages"]), ui.states, h("div", { class: "split" }, ui.list.box, ui.detail));
  const local = { chosen: -1, filter: 0, toggled: new Set(), picked: false, now: null, geometry: null, timer: null };

  const update = () => {
    const of = session(), it = run();
    local.now = stateAt(of, it, app.call);
    ui.slider.max = String(callCount());
    ui.slider.value = String(app.call + 1);
    ui.slider.setAttribute("aria-valuetext", `call ${app.call + 1} of ${callCount()}`);
    ui.number.max = String(callCount());
    if (document.activeElement !== ui.number) ui.number.value = String(app.call + 1);
    ui.of.textContent = `of ${n0(callCount())}`;
    ui.status.replaceChildren(...statusLines(of, it, local.now));
    fillStates(ui.states, local, refilter);
    drawSpark(ui.spark, it);
    if (!it.changes) ui.states.prepend(h("p", { class: "small" }, "What was taken out was not recorded in this replay."));
    if (!(local.picked && local.chosen < local.now.known)) local.chosen = telling(of, local.now);
    refill();
    paintMap();
    explain();
  };
  const refill = () => ui.list.set(rowsOf(session(), local.now, local.filter, local.toggled));
  const refilter = (state) => { local.filter = local.filter === state ? 0 : state; fillStates(ui.states, local, refilter); refill(); ui.list.box.scrollTop = 0; };
  const paintMap = () => { if (ui.mapBox.clientWidth) local.geometry = drawMap(ui.map, ui.mapBox.clientWidth, local.now, typeof local.chosen === "number" ? local.chosen : -1); };
  const explain = () => ui.detail.replaceChildren(...itemDetail(session(), run(), local.now, local.chosen, choose));
  const choose = (chosen, reveal) => {
    local.chosen = chosen;
    local.picked = true;
    if (reveal) revealItem(ui.list, local, refill);
    ui.list.draw();
    paintMap();
    explain();
  };
  ui.list.render = (row) => itemRow(session(), local.now, row, local.chosen);
  wireScrubber(ui, local, { choose, refill });
  app.listeners.push((change) => {
    if ("session" in change || "run" in change) { local.toggled.clear(); local.filter = 0; }
    if ("session" in change) local.picked = false;
    update();
  });
  onWidth(ui.mapBox, () => { paintMap(); drawSpark(ui.spark, run()); });
  onColours(paintMap);
  update();
}

// What to show until something is chosen: the largest item that has just gone, or else the newest.
function telling(of, now) {
  let found = -1;
  now.state.forEach((state, index) => { if (state === JUST_GONE && (found < 0 || of.tokens[index] > of.tokens[found])) found = index; });
  return found >= 0 ? found : now.known - 1;
}

function scrubberParts() {
  const button = (id, text, label) => h("button", { type: "button", id, "aria-label": label, title: label }, text);
  const list = virtualList((row) => list.render(row));
  const ui = {
    list,
    slider: h("input", { type: "range", id: "slider", min: 1, max: 1, step: 1, value: 1, "aria-label": "Model call" }),
    number: h("input", { type: "number", id: "number", min: 1, inputmode: "numeric", "aria-label": "Number of the model call" }),
    of: h("span", { class: "of" }),
    play: button("play", "▶", "Play"),
    back: button("back", "‹", "One call back"),
    ahead: button("ahead", "›", "One call ahead"),
    last: button("lastpass", "«", "To the change before"),
    next: button("nextpass", "»", "To the next change"),
    spark: svg("svg", { class: "spark", "aria-hidden": "true" }),
    status: h("div", { class: "status", "aria-live": "polite" }),
    map: h("canvas", { "aria-hidden": "true" }),
    states: h("div", { class: "states", role: "group", "aria-label": "Show only" }),
    detail: h("div", { class: "detail item-detail", "aria-live": "polite" }),
  };
  ui.mapBox = h("div", { class: "map" }, ui.map);
  ui.bar = h("div", { class: "scrub" },
    h("div", { class: "track" }, ui.spark, ui.slider),
    h("div", { class: "buttons" }, ui.last, ui.back, ui.play, ui.ahead, ui.next, h("label", { class: "callno" }, "Call ", ui.number, ui.of)));
  return ui;
}

function wireScrubber(ui, local, { choose, refill }) {
  ui.slider.addEventListener("input", () => go({ call: Number(ui.slider.value) - 1 }));
  ui.number.addEventListener("change", () => go({ call: Number(ui.number.value) - 1 }));
  ui.back.addEventListener("click", () => go({ call: app.call - 1 }));
  ui.ahead.addEventListener("click", () => go({ call: app.call + 1 }));
  const change = (way) => {
    const calls = (run().changes || []).map((entry) => entry.call);
    const found = way > 0 ? calls.find((call) => call > app.call) : calls.reverse().find((call) => call < app.call);
    if (found !== undefined) go({ call: found });
  };
  ui.last.addEventListener("click", () => change(-1));
  ui.next.addEventListener("click", () => change(1));
  const stop = () => { clearInterval(local.timer); local.timer = null; ui.play.textContent = "▶"; ui.play.setAttribute("aria-label", "Play"); };
  ui.play.addEventListener("click", () => {
    if (local.timer) return stop();
    if (app.call >= callCount() - 1) go({ call: 0 });
    ui.play.textContent = "❚❚";
    ui.play.setAttribute("aria-label", "Pause");
    const pause = clamp((PLAY_SECONDS * 1000) / callCount(), 80, 500);
    const step = Math.max(1, Math.round((callCount() * pause) / (PLAY_SECONDS * 1000)));
    local.timer = setInterval(() => { if (app.call >= callCount() - 1) return stop(); go({ call: app.call + step }); }, pause);
  });
  document.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step || event.altKey || event.ctrlKey || event.metaKey || event.target.closest("input, select, .plot, .wide")) return;
    event.preventDefault();
    go({ call: app.call + step });
  });
  const pick = (node) => {
    if (!node) return;
    const key = node.dataset.group;
    if (key) { if (local.toggled.has(key)) local.toggled.delete(key); else local.toggled.add(key); refill(); return; }
    if (node.dataset.aside) choose(local.now.aside.find((aside) => aside.text === Number(node.dataset.aside)));
    else choose(Number(node.dataset.index));
  };
  ui.list.box.addEventListener("click", (event) => pick(event.target.closest(".row")));
  ui.list.box.addEventListener("keydown", (event) => walk(event, ui.list, local, choose));
  ui.map.addEventListener("click", (event) => {
    const index = itemAt(local.geometry, ui.map, event);
    if (index >= 0 && index < local.now.known) choose(index, true);
  });
}

function walk(event, list, local, choose) {
  const step = { ArrowUp: -1, ArrowDown: 1, PageUp: -12, PageDown: 12, Home: -1e9, End: 1e9 }[event.key];
  if (!step) return;
  event.preventDefault();
  const items = list.rows().map((row, number) => ({ row, number })).filter(({ row }) => row.index !== undefined);
  if (!items.length) return;
  const at = items.findIndex(({ row }) => row.index === local.chosen);
  const next = items[clamp(at + step, 0, items.length - 1)];
  choose(next.row.index);
  list.reveal(next.number);
  list.draw();
  list.box.setAttribute("aria-activedescendant", `item-${next.row.index}`);
}

function revealItem(list, local, refill) {
  const place = () => list.rows().findIndex((row) => row.index === local.chosen);
  local.filter = place() < 0 ? 0 : local.filter;
  // A line that holds it may be within another: each is opened in turn.
  for (let depth = 0; depth < 3 && place() < 0; depth++) {
    refill();
    const before = (row) => (row.group ? row.group.first : row.bundle ? Number(row.bundle.key.slice(1)) : Infinity);
    const head = [...list.rows()].reverse().find((row) => before(row) <= local.chosen);
    const key = head && (head.bundle ? head.bundle.key : `${head.group.key}.${head.group.first}`);
    if (!key) break;
    if (local.toggled.has(key)) local.toggled.delete(key); else local.toggled.add(key);
    refill();
  }
  if (place() >= 0) list.reveal(place(), true);
}

function itemAt(geometry, canvas, event) {
  const of = session(), box = canvas.getBoundingClientRect();
  const line = Math.floor((event.clientY - box.top) / (geometry.deep + geometry.gap));
  const token = (line + (event.clientX - box.left) / box.width) * geometry.perLine;
  let sum = 0;
  return of.tokens.findIndex((tokens) => (sum += tokens) > token);
}

function statusLines(of, it, now) {
  const size = it.sizes[app.call];
  const known = it.reported && !it.reported[app.call];
  const share = it.budget ? ` of ${n0(it.budget)} tokens (${percent(size / it.budget)})` : " tokens";
  const facts = [h("b", {}, `${n0(size)}${share}`)];
  if (known) facts.push("estimated");
  if (it.read && it.read[app.call]) facts.push(`${percent(it.read[app.call] / size)} from the cache`);
  if (it.cost) facts.push(`${UNITS.usd(spent(it, app.call))} so far`);
  const line = h("p", { class: "now-line" }, facts.map((fact, at) => [at ? " · " : "", fact]));
  const over = it.budget && size > it.budget;
  const parts = it.changes ? heldAt(of, now).map(([what, tokens]) => `${what} ${n0(tokens)}`).join(", ") : "";
  const held = parts && h("p", { class: over ? "small over" : "small" }, `${over ? `${n0(size - it.budget)} over the budget. ` : ""}It held: ${parts}.`);
  const happened = whatHappened(of, it, app.call);
  const used = of.uses && it.found && of.uses[app.call]
    ? `The answer used ${many(of.uses[app.call], "known name")}; ${it.found[app.call] === of.uses[app.call] ? "all were in view" : `${n0(it.found[app.call])} in view`}.`
    : "";
  return [line, held, h("p", { class: "small" }, [happened, used].filter(Boolean).join(" ") || "Nothing was taken out just before it.")].filter(Boolean);
}

function spent(it, call) {
  if (!it.spent) { let sum = 0; it.spent = it.cost.map((micro) => (sum += micro)); }
  return it.spent[call] / 1e6;
}

function fillStates(box, local, pick) {
  box.replaceChildren(...local.now.totals.map(({ items, tokens }, state) => {
    if (!STATES[state] || (!items && local.filter !== state)) return null;
    const { key, label } = STATES[state];
    return h("button", { type: "button", class: `st-${key}`, "data-state": key, "aria-pressed": String(local.filter === state), onclick: () => pick(state) },
      h("i", { class: "mark", "aria-hidden": "true" }), h("span", {}, label), h("b", {}, n0(items)), h("span", { class: "small" }, `${short(tokens)} tokens`));
  }).filter(Boolean));
}

function drawSpark(node, it) {
  const width = node.clientWidth, height = 34;
  if (!width) return;
  // The slider's knob stays within its track by half its width.
  const x = scale(0, Math.max(1, callCount() - 1), 8, width - 8);
  const y = scale(0, Math.max(peak(it.sizes), 1), height, 3);
  const area = `${path(it.sizes, x, y)}L${x(callCount() - 1).toFixed(1)} ${height}L8 ${height}z`, { stroke } = look(it.name);
  const marks = (it.changes || []).map((entry) => `M${x(entry.call).toFixed(1)} ${height}v-5`).join("");
  node.setAttribute("viewBox", `0 0 ${width} ${height}`);
  node.replaceChildren(styled(svg("path", { d: area, class: "area" }), { stroke }), styled(svg("path", { d: marks, class: "sparkmark" }), { stroke }), svg("line", { class: "now", x1: x(app.call), x2: x(app.call), y1: 0, y2: height }));
}

function itemDetail(of, it, now, chosen, choose) {
  if (chosen && chosen.text !== undefined) {
    const text = textOf(chosen.text);
    return [h("h3", {}, chosen.is === "summary" ? "A summary" : "The index of what has left"), h("p", { class: "small" }, `In view since call ${n0(chosen.call + 1)}, ${n0(chosen.tokens)} tokens. It is no part of the history.`), content(text)];
  }
  if (!(chosen >= 0)) return [h("p", { class: "small" }, "Choose an item to read it, and to see why it is there or gone.")];
  if (chosen >= now.known) return [h("p", { class: "small" }, `Item ${n0(chosen + 1)} had not happened yet at this call.`)];
  const state = now.state[chosen], kind = of.kinds[chosen], tool = of.tool[chosen] >= 0 ? of.tools[of.tool[chosen]] : "";
  const bar = of.bars[of.owner[chosen]];
  const seen = of.first.findIndex((first) => first > chosen);
  const facts = [`item ${n0(chosen + 1)}`, `${n0(of.tokens[chosen])} tokens`, seen >= 0 && `first sent with call ${n0(seen + 1)}`, bar && `${episodeType(bar)} ${bar.name ? episodeName(bar) : ""}`];
  const why = { [IN_VIEW]: "In view.", [NEW]: "New: this call is the first to see it." }[state] || reason(of, it, now, chosen);
  const stand = now.placed.get(chosen);
  return [
    h("h3", {}, `${KINDS[kind]}${tool ? ` · ${tool}` : ""}`),
    h("p", { class: "small" }, facts.filter(Boolean).join(" · ")),
    h("p", { class: `why st-${STATES[state].key} ${pieceOf(of, chosen)}` }, h("i", { class: "mark", "aria-hidden": "true" }), why),
    stand && [h("p", { class: "small" }, `What stands in its place (${n0(stand.tokens)} tokens):`), content(textOf(stand.text))],
    content(textOf(of.text + chosen)),
  ].flat().filter(Boolean);
}

function content(text) {
  if (text === null || text === undefined) return h("p", { class: "small" }, "This report holds no contents.");
  const full = fullText(text);
  return full ? h("pre", { tabindex: 0 }, full) : h("p", { class: "small" }, "(empty)");
}
