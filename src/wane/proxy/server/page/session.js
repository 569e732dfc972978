// One session: made once, and changed where it has changed.

function sessionCard() {
  const card = {
    title: h("bdi", {}),
    seen: h("span", { class: "seen" }),
    meta: h("p", { class: "meta" }),
    bar: h("div", { class: "bar", role: "img" }, h("i", { class: "limit", hidden: true })),
    figures: h("p", { class: "figures" }),
    ghost: h("div", { class: "line", "aria-hidden": "true", hidden: true }, h("i", {})),
    said: h("p", { class: "said" }),
    money: h("p", { class: "said" }),
    views: h("div", { class: "views", hidden: true }),
    note: h("p", { class: "warn", hidden: true }),
    summary: h("summary", {}),
    episodes: h("div", { class: "episodes" }),
    known: "",
  };
  card.details = h("details", { hidden: true }, card.summary, card.episodes);
  card.details.addEventListener("toggle", () => drawEpisodes(card));
  card.node = h("article", { class: "session" },
    h("header", {}, h("h2", {}, card.title), card.seen),
    card.meta, card.bar, card.figures, card.ghost, card.said, card.money, card.views, card.note, card.details);
  return card;
}

function drawSession(card, session, now) {
  const age = between(session.last, now);
  const seen = age < 3 ? "now" : `${span(age)} ago`;
  if (card.seen.textContent !== seen) card.seen.textContent = seen;
  card.seen.classList.toggle("live", age < 15);
  // Most sessions stand still most of the time.
  const known = JSON.stringify(session);
  if (known === card.known) return;
  card.known = known;
  card.session = session;
  card.title.textContent = session.title.trim() || "(no words)";
  const facts = [...(session.parent ? [session.parent === "?" ? "sub-agent of a session that is not known" : "sub-agent"] : []), ...(session.owner ? [session.owner] : []), session.model, session.api.replace("_", " "), many(session.requests, "request"), session.id];
  card.meta.replaceChildren(...facts.map((text) => h("bdi", {}, text)));
  drawBar(card.bar, session);
  drawFigures(card, session);
  drawGhost(card.ghost, session);
  card.node.classList.toggle("agent", Boolean(session.parent));
  drawMoney(card.money, session);
  drawViews(card.views, session);
  drawEpisodes(card);
}

function drawFigures(card, session) {
  const over = session.view > session.budget;
  const room = over ? `${short(session.view - session.budget)} over the budget` : `${short(session.budget - session.view)} free`;
  card.node.classList.toggle("over", over);
  card.figures.replaceChildren(
    h("span", {}, h("b", {}, short(session.view)), ` of ${short(session.budget)} in view`),
    h("span", { class: "room" }, room));
  const gone = session.removed ? `, ${many(session.removed, "episode")} as a whole` : "";
  card.said.textContent = session.evicted > 0
    ? `${short(session.evicted)} of ${short(session.history)} evicted${gone}`
    : `${short(session.history)} said, nothing evicted`;
  const unmet = session.satisfied ? "" : "The budget cannot be met: what may not be evicted is too large.";
  card.note.textContent = [session.note || unmet, (session.thrashing || session.room || {}).warning].filter(Boolean).join(" ");
  card.note.hidden = !card.note.textContent;
}

// The rows are made when somebody looks.
function drawEpisodes(card) {
  const { session, details } = card;
  details.hidden = !session.episodes.length;
  card.summary.textContent = `${many(session.episodes.length, "episode")} in view`;
  if (!details.open) {
    card.episodes.replaceChildren();
    return;
  }
  const row = (it) => {
    const dot = h("i", { class: "dot" });
    dot.style.background = colourOf(it);
    const name = h("bdi", {}, it.name === null ? "outside episodes" : it.name);
    return h("tr", {}, h("td", { class: "name" }, dot, name), h("td", {}, it.name === null ? "" : TYPES[it.type] || it.type), h("td", {}, stateOf(it)), h("td", { class: "num" }, n0(it.tokens)));
  };
  const head = h("thead", {}, h("tr", {}, h("th", {}, "Episode"), h("th", {}, "Type"), h("th", {}, "State"), h("th", { class: "num" }, "In view")));
  card.episodes.replaceChildren(h("table", {}, head, h("tbody", {}, session.episodes.map(row))));
}

function drawMoney(node, session) {
  const { money, used } = session;
  const parts = [];
  if (money) {
    const { marks, saved, net } = effect(money);
    const changed = marks || saved ? `; about: marks cost ${cents(marks)}, eviction saved ${cents(saved)}, net ${cents(net)}` : "";
    parts.push(`${spent(money)} spent${changed}`);
  }
  if (used.input) parts.push(`${Math.round((100 * used.cache_read) / used.input)} % of ${short(used.input)} input read from the cache`);
  if (session.agents) parts.push(withAgents(session));
  node.textContent = parts.join("; ");
}

// What its sub-agents took besides, and the sum of all.
function withAgents({ agents, money, calls }) {
  const said = `${many(agents.sessions, "sub-agent")} besides: ${short(agents.used.input)} input`;
  if (!agents.money) return said;
  const own = money || { spent: 0, priced_calls: 0 };
  const all = { spent: own.spent + agents.money.spent, priced_calls: own.priced_calls + agents.money.priced_calls, calls: calls + agents.calls };
  return `${said}, ${spent(agents.money)} spent, ${spent(all)} with this session`;
}

// The view of the latest requests, a bar each, with what a pass evicted above it.
function drawViews(node, session) {
  const { views } = session;
  node.hidden = views.length < 2;
  if (node.hidden) return;
  const most = Math.max(session.budget, ...views.map(([, view, evicted]) => view + evicted));
  const passes = views.filter(([, , evicted]) => evicted > 0).length;
  const bars = views.map(([at, view, evicted]) => {
    const bar = h("i", {}, evicted > 0 && h("b", {}), h("u", {}));
    bar.lastChild.style.height = `${(100 * view) / most}%`;
    if (evicted > 0) bar.firstChild.style.height = `${(100 * evicted) / most}%`;
    bar.title = `${new Date(at * 1000).toLocaleTimeString()}: ${short(view)} in view${evicted > 0 ? `, ${short(evicted)} evicted` : ""}`;
    return bar;
  });
  const text = `The last ${many(views.length, "request")}${passes ? `, ${n0(passes)} ${passes === 1 ? "pass" : "passes"} that evicted` : ", no pass"}`;
  node.replaceChildren(h("div", { class: "chart", role: "img", "aria-label": text }, bars), h("p", { class: "small" }, text));
}
