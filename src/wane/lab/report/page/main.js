// Puts the page together, and keeps its address in step with what is looked at.

function heading() {
  const intro = h("section", { class: "intro" }, h("h1", {}, data.title));
  const facts = h("dl", { class: "facts" });
  const fillFacts = () => facts.replaceChildren(...[...data.facts, ...((session() && session().facts) || [])].map(([label, value]) => h("div", {}, h("dt", {}, label), h("dd", {}, value))));
  const said = h("div", { class: "headline", hidden: true });
  const fillHeadline = () => {
    const headline = session() && session().headline;
    said.hidden = !headline;
    if (headline) said.replaceChildren(h("p", { class: "outcome" }, headline.text), h("p", { class: "small" }, headline.detail));
  };
  fillFacts();
  fillHeadline();
  app.listeners.push((change) => { if ("session" in change) { fillFacts(); fillHeadline(); } });
  intro.append(said, facts);
  if (data.left_out.length) intro.append(h("p", { class: "note" }, `The page is full: ${many(data.left_out.length, "session")} stand in the figures alone.`));
  main.append(intro);
}

function chooser() {
  const sessions = data.sessions;
  const pick = (label, id, options, change) => {
    const select = h("select", { id, onchange: (event) => change(Number(event.target.value)) }, options.map((text, value) => h("option", { value }, text)));
    return { select, label: h("label", { class: "choose" }, h("span", {}, label), select) };
  };
  const box = h("div", { class: "chooser" });
  const which = pick("Session", "session", sessions.map((it) => (it.title && it.title !== it.name ? `${it.name}: ${it.title}`.slice(0, 90) : it.name)), (value) => go({ session: value, run: app.run, call: 0 }));
  const how = pick(data.report === "view" ? "Shown" : "Strategy", "strategy", session().runs.map((it) => shown(it.name)), (value) => go({ run: value }));
  if (sessions.length > 1) box.append(which.label);
  if (session().runs.length > 1) box.append(how.label);
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
  // A recorded session is shown as recorded, unless nothing left its view.
  const telling = data.report === "view" ? (it) => it.changes?.length : (it) => it.name === "cwl";
  if (some) app.run = Math.max(0, session().runs.findIndex(telling));
  heading();
  if (data.report === "comparison") strategyTable();
  if (data.report === "sweep") sweepSection();
  if (some) {
    chooser();
    viewsSection();
    episodesSection();
    scrubberSection();
  } else if (data.report === "view") main.append(h("p", { class: "note" }, "No model was called in this session, so that there is nothing to draw."));
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
