// Puts the page together, and keeps its address in step with what is looked at.

// Returns a note to put below the plot, which comes first.
function heading() {
  let note = null;
  const title = h("h1", {}, data.title);
  const head = h("div", { class: "head" }, title);
  main.append(head);
  if (data.report === "view") {
    app.listeners.push((change) => {
      if ("session" in change) title.textContent = document.title = session().title || session().name;
    });
    head.append(h("p", { class: "lead" }, "What this session cost, what it costs with Wane, and what would have been missing."));
    note = figures();
  } else {
    head.append(h("p", { class: "lead" }, data.purpose));
    if (data.tiles?.length) note = figures();
    else if (data.verdict) head.append(h("p", { class: "outcome" }, `${data.verdict}.`));
  }
  if (data.left_out.length) head.append(h("p", { class: "note" }, `The page is full: ${many(data.left_out.length, "session")} stand in the figures alone.`));
  return note;
}

// Three figures of all sessions, or of the one that is looked at, each with how it was computed.
function figures() {
  const tiles = h("div", { class: "tiles", role: "group", "aria-label": "In three figures" });
  const note = h("p", { class: "note" });
  const fill = () => {
    const it = data.tiles ? data : session();
    const tight = [it?.tight || []].flat();
    tiles.hidden = !(it && it.tiles);
    note.hidden = !tight.length;
    note.replaceChildren(...tight.flatMap((line, at) => (at ? [h("br"), line] : [line])));
    if (!tiles.hidden) tiles.replaceChildren(...it.tiles.flatMap((made, at) => tile({
      id: `tile-${at}`,
      what: made.what,
      value: [made.value, made.beside && [" ", h("small", {}, made.beside)]],
      then: made.then,
      bound: made.bound,
      how: [made.lines.length > 0 && account(made.lines, made.what), made.notes.map((note) => h("p", { class: "small" }, note))],
    })));
  };
  fill();
  app.listeners.push((change) => { if ("session" in change) fill(); });
  main.append(tiles);
  return note;
}

function factsOf(facts) {
  const list = h("dl", { class: "facts" });
  const fill = () => list.replaceChildren(...facts().map(([label, value]) => h("div", {}, h("dt", {}, label), h("dd", {}, value))));
  fill();
  app.listeners.push((change) => { if ("session" in change) fill(); });
  return list;
}

function about() {
  const body = section("about", data.report === "view" ? "About this session" : "What was compared");
  if (data.tiles?.length && data.verdict) body.append(h("p", { class: "small" }, `${data.verdict}.`));
  body.append(factsOf(() => [...data.facts, ...((session() && session().facts) || [])]));
}

function chooser() {
  const sessions = data.sessions;
  const pick = (label, id, options, change) => {
    const select = h("select", { id, onchange: (event) => change(Number(event.target.value)) }, options.map((text, value) => h("option", { value }, text)));
    return { select, label: h("label", { class: "choose" }, h("span", {}, label), select) };
  };
  const box = h("div", { class: "chooser" });
  const which = pick("Session", "session", sessions.map((it) => (!it.title ? it.name : sessions.filter((other) => other.title === it.title).length > 1 ? `${it.title} (${it.name})` : it.title)), (value) => go({ session: value, run: app.run, call: 0 }));
  const how = pick("Strategy", "strategy", session().runs.map((it) => shown(it.name)), (value) => go({ run: value }));
  if (sessions.length > 1) box.append(which.label);
  if (data.report !== "view" && session().runs.length > 1) box.append(how.label);
  app.listeners.push(() => { which.select.value = String(app.session); how.select.value = String(app.run); });
  if (box.children.length) main.append(box);
}

function fromAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  if (given.has("theme")) theme(given.get("theme"));
  const change = {};
  if (given.has("session")) change.session = Number(given.get("session")) - 1;
  if (given.has("strategy")) change.run = Math.max(0, session().runs.findIndex((it) => it.name === given.get("strategy")));
  if (given.has("call")) change.call = Number(given.get("call")) - 1;
  return change;
}

function start() {
  const some = data.sessions.length > 0 && data.sessions[0].first.length > 0;
  // Shown first is what Wane does; where it did nothing, what was recorded.
  if (some) app.run = Math.max(0, session().runs.findIndex((it) => it.name === "cwl" && (data.report !== "view" || it.changes?.length)));
  const note = heading();
  if (data.report === "comparison") {
    comparedPlot();
    if (note) main.append(note);
    strategyTable();
  }
  if (data.report === "tune") tuneSection();
  if (data.report === "sweep" || data.report === "tune") sweepSection();
  if (data.report === "tune") tuneReasons();
  if (data.report === "sweep" || data.report === "tune") sweepTable();
  if (some) {
    chooser();
    viewsSection();
    if (note && data.report === "view") main.append(note);
    episodesSection();
    scrubberSection();
  } else if (data.report === "view") main.append(h("p", { class: "note" }, "No model was called in this session, so that there is nothing to draw."));
  if (data.report !== "view" || some) about();
  linkWords();
  startTheme();
  if (some) {
    const change = fromAddress();
    go({ call: firstChange(), ...change });
    addEventListener("hashchange", () => { const next = fromAddress(); if (Object.keys(next).length) go(next); });
  }
}

// Where there is something to see: the first call before which something was taken out.
const firstChange = () => run().changes?.[0]?.call ?? callCount() - 1;

start();
