// One session: made once, and changed where it has changed.

const LEFT = 40, TOP = 12, BASE = 34;

function copyButton(label, text, source) {
  const button = h("button", { type: "button", class: "pill", "aria-label": label }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text());
      button.textContent = "Copied";
    } catch {
      // The clipboard may be refused; then the text is selected.
      if (source) getSelection().selectAllChildren(source);
      button.textContent = "Press Ctrl+C";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  return button;
}

function sessionCard(id) {
  const card = {
    session: null,
    picked: null,
    title: h("bdi", {}),
    seen: h("span", { class: "state" }),
    meta: h("p", { class: "meta" }),
    box: h("div", { class: "chart", tabindex: 0, role: "img" }),
    tip: h("div", { class: "tip", hidden: true }),
    ends: h("p", { class: "ends", "aria-hidden": "true" }),
    money: h("dl", { class: "money" }),
    why: h("p", { class: "why" }),
    said: h("p", { class: "said" }),
    note: h("p", { class: "warn", hidden: true }),
    link: h("span", { class: "open" }),
    id: h("code", {}, id.slice(-8)),
    bar: h("div", { class: "bar", role: "img" }, h("i", { class: "limit", hidden: true })),
    barKey: h("ul", { class: "key", "aria-label": "Colours of the bar" }),
    episodes: h("div", { class: "episodes", tabindex: 0, role: "region" }),
    known: "",
  };
  const heading = `title-${id.replace(/[^A-Za-z0-9-]/g, "")}`;
  card.details = h("details", { class: "holding" }, h("summary", {}, "What the last request held"), card.bar, card.barKey, card.episodes);
  card.details.addEventListener("toggle", () => drawEpisodes(card));
  card.node = h("article", { class: "card session", "aria-labelledby": heading },
    h("header", {}, h("h2", { id: heading }, card.title), card.seen),
    card.meta, card.box, card.ends, card.money, card.why, card.said, card.note,
    h("div", { class: "row" }, card.link, h("span", { class: "id" }, "Session ", card.id, copyButton("Copy the session's id", () => id, card.id))),
    card.details);
  onWidth(card.box, () => drawChart(card));
  const at = (event) => {
    const { left, right, calls } = card.box.drawn;
    return Math.round(scale(left, right, 0, Math.max(1, calls - 1))(event.clientX - card.box.getBoundingClientRect().left));
  };
  card.box.addEventListener("pointermove", (event) => { if (card.box.drawn) pick(card, at(event)); });
  card.box.addEventListener("pointerleave", () => pick(card, null));
  card.box.addEventListener("blur", () => pick(card, null));
  card.box.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -1e9, End: 1e9 }[event.key];
    if (!step || !card.session.views.length) return;
    event.preventDefault();
    pick(card, (card.picked ?? card.session.views.length) + step);
    byId("said").textContent = [...card.tip.children].map((line) => line.textContent).join(", ");
  });
  return card;
}

function drawSession(card, session, now) {
  const age = between(session.last, now);
  const seen = age < BUSY_SECONDS ? "working" : `idle for ${span(age)}`;
  if (card.seen.textContent !== seen) {
    card.seen.replaceChildren(svg("svg", { width: 10, height: 10, "aria-hidden": "true" }, svg("path", { d: age < BUSY_SECONDS ? "M5 1a4 4 0 1 0 .01 0z" : "M1 4h8v2h-8z", fill: "currentColor" })), seen);
    card.seen.classList.toggle("live", age < BUSY_SECONDS);
  }
  // Most sessions stand still most of the time.
  const known = JSON.stringify([session, page.data.opens]);
  if (known === card.known) return;
  card.known = known;
  card.session = session;
  card.title.textContent = session.title.trim() || "(no words)";
  const parent = session.parent && (session.parent === "?" ? "sub-agent of a session that is not known" : "sub-agent");
  const facts = [parent, session.owner, session.model, many(session.requests, "request")].filter(Boolean);
  card.meta.replaceChildren(...facts.map((text) => h("bdi", {}, text)));
  card.node.classList.toggle("agent", Boolean(session.parent));
  card.node.classList.toggle("over", session.view > session.budget);
  drawLink(card, session);
  drawChart(card);
  drawMoney(card, session);
  drawSaid(card, session);
  drawBar(card.bar, session);
  drawEpisodes(card);
}

// The key that the terminal told; see `SessionPages`.
const pageKey = () => new URLSearchParams(location.hash.slice(1)).get("key") || "";
const mayOpen = () => Boolean(pageKey() || page.data.opens);

// Opens the session where its contents may be seen.
function drawLink(card, session) {
  const key = pageKey();
  if (mayOpen()) {
    const address = `session/${encodeURIComponent(session.id)}${key ? `?key=${encodeURIComponent(key)}` : ""}`;
    card.link.replaceChildren(h("a", { href: address, target: "_blank", rel: "noopener" }, "Open this session", h("span", { class: "away" }, `: ${card.title.textContent}, in a new tab`)));
  } else if (page.data.stored) card.link.replaceChildren(h("span", { class: "small" }, "To open it: "), h("code", {}, `wane view ${session.id.slice(-12)}`));
  else card.link.replaceChildren();
}

const linePath = (values, x, y) => values.map((value, at) => `${at ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`).join("");
const areaPath = (values, x, y) => `${linePath(values, x, y)}L${x(values.length - 1).toFixed(1)} ${y(0).toFixed(1)}L${x(0).toFixed(1)} ${y(0).toFixed(1)}Z`;

// What the latest requests held (blue, thick), and what they would have held with the whole history (grey, an area).
function drawChart(card) {
  const { session, box, tip } = card;
  const width = box.clientWidth;
  if (!width || !session) return;
  const { views, budget } = session;
  if (views.length < 2) {
    box.replaceChildren(h("p", { class: "small" }, `One request so far: ${n0(session.view)} tokens of a budget of ${n0(budget)}.`));
    box.setAttribute("aria-label", box.textContent);
    box.drawn = null;
    card.ends.textContent = "";
    return;
  }
  const narrow = width < 500, tall = narrow ? 150 : 170, bottom = TOP + tall;
  const sent = views.map(([, view]) => view), whole = views.map(([, view, , history]) => Math.max(history, view));
  const last = whole.length - 1, first = Math.max(0, session.requests - views.length);
  const most = Math.max(budget * 1.1, ...whole.map((value) => value * 1.06));
  const y = scale(0, most, bottom, TOP);
  // Names at the ends of the lines, apart from each other.
  const same = whole[last] === sent[last];
  const ends = [[same ? "of-sent" : "of-history", same ? "all is sent" : "whole history", whole[last]], ["of-budget", "budget", budget]];
  if (!same) ends.push(["of-sent", "sent", sent[last]]);
  const rows = ends.map(([of, text, value]) => ({ of, text: `${text} ${short(value)}`, y: y(value) + 4 })).sort((a, b) => a.y - b.y);
  for (let at = 1; at < rows.length; at++) rows[at].y = Math.max(rows[at].y, rows[at - 1].y + 15);
  const right = narrow ? 8 : 12 + 7.6 * Math.max(...rows.map((row) => row.text.length)), x = scale(0, Math.max(1, last), LEFT, width - right);
  const labels = narrow ? [] : rows.map((row) => svg("text", { class: `label ${row.of}`, x: width - right + 8, y: row.y }, row.text));
  const asides = views.flatMap(([, , evicted], at) => (evicted > 0 ? [at] : []));
  const marks = ticks(first + 1, first + views.length, narrow ? 3 : 8).filter((value) => Number.isInteger(value) && value > first + 1 && x(value - first - 1) > LEFT + 70);
  const cross = card.picked === null ? [] : [svg("line", { class: "now", x1: x(card.picked), x2: x(card.picked), y1: TOP, y2: bottom })];
  const picture = svg("svg", { viewBox: `0 0 ${width} ${bottom + BASE}`, height: bottom + BASE, "aria-hidden": "true" },
    ticks(0, most, 3).map((value) => [svg("line", { class: "grid", x1: LEFT, x2: width - right, y1: y(value), y2: y(value) }), svg("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, short(value))]),
    svg("path", { class: "history-area", d: areaPath(whole, x, y) }), svg("path", { class: "history-line", d: linePath(whole, x, y) }),
    svg("path", { class: "sent-area", d: areaPath(sent, x, y) }), svg("path", { class: "sent-line", d: linePath(sent, x, y) }),
    svg("path", { class: "budgetline", d: `M${LEFT} ${y(budget)}H${width - right}` }),
    asides.map((at) => svg("path", { class: "aside", d: `M${x(at)} ${bottom + 4}v9` })),
    svg("text", { x: LEFT, y: bottom + 30, "text-anchor": "start" }, `request ${n0(first + 1)}`),
    marks.map((value) => svg("text", { x: x(value - first - 1), y: bottom + 30, "text-anchor": value > first + 0.97 * views.length ? "end" : "middle" }, n0(value))),
    svg("circle", { cx: x(last), cy: y(sent[last]), r: 3.5, fill: "var(--wane)" }), cross, labels);
  box.replaceChildren(picture, tip);
  box.drawn = { x, left: LEFT, right: width - right, calls: views.length };
  box.setAttribute("aria-label", `The last ${many(views.length, "request")}: the whole history is now ${n0(whole[last])} tokens, the last request held ${n0(sent[last])}, the budget is ${n0(budget)}; work was set aside ${times(asides.length)}. Arrow keys read single requests.`);
  card.ends.textContent = `now: history ${short(whole[last])} · sent ${short(sent[last])} · budget ${short(budget)}`;
}

function pick(card, at) {
  const { session, box, tip } = card;
  if (!session || !box.drawn) return;
  card.picked = at === null ? null : clamp(at, 0, session.views.length - 1);
  drawChart(card);
  tip.hidden = card.picked === null;
  if (tip.hidden) return;
  const [when, view, evicted, history] = session.views[card.picked];
  const lines = [`${new Date(when * 1000).toLocaleTimeString()}`, `whole history ${n0(Math.max(history, view))}`, `sent ${n0(view)}`];
  if (evicted > 0) lines.push(`set aside ${n0(evicted)}`);
  tip.replaceChildren(h("b", {}, `Request ${n0(Math.max(0, session.requests - session.views.length) + card.picked + 1)}`), ...lines.map((line) => h("span", {}, line)));
  const x = box.drawn.x(card.picked);
  styled(tip, { top: "4px", left: `${clamp(x + 12 + tip.offsetWidth > box.clientWidth ? x - tip.offsetWidth - 12 : x + 12, 0, box.clientWidth)}px` });
}

function drawMoney({ money: node, why }, session) {
  const { money, used } = session;
  const cell = (dt, dd, name) => h("div", { class: name }, h("dt", {}, dt), h("dd", {}, dd));
  const lines = [];
  if (!money) {
    node.replaceChildren(cell("spent", "not known"));
    if (used.input) lines.push("No price is known for this model, so there are no dollars here.");
  } else if (page.data.shadow) node.replaceChildren(cell("spent", spent(money)));
  else {
    const { marks, saved, net, without } = effect(money);
    node.replaceChildren(cell("spent", spent(money)), cell("marks cost", usd(marks)), cell("eviction saved", usd(saved)), cell("net", netText(net), "net"));
    if (session.evicted <= 0) lines.push("Nothing was set aside yet, so eviction saved nothing.");
    else lines.push(`About ${usd(without)} without Wane, had the whole history been sent.${net < 0 ? " The marks cost more than eviction saved so far." : ""}`);
    if (money.priced_calls < money.calls) lines.push(`Of ${n0(money.priced_calls)} of ${many(money.calls, "call")}; what the others cost is not known, or only in part.`);
  }
  if (money && session.assumed) lines.push(`Models without a known price count ${session.assumed}.`);
  if (used.input) lines.push(`${Math.round((100 * used.cache_read) / used.input)}% of ${short(used.input)} input was read from the cache.`);
  if (session.agents) lines.push(withAgents(session));
  why.textContent = lines.join(" ");
}

// What its sub-agents took besides, and the sum of all.
function withAgents({ agents, money, calls }) {
  const said = `${many(agents.sessions, "sub-agent")} besides: ${short(agents.used.input)} input`;
  if (!agents.money) return `${said}.`;
  const own = money || { spent: 0, priced_calls: 0 };
  const all = { spent: own.spent + agents.money.spent, priced_calls: own.priced_calls + agents.money.priced_calls, calls: calls + agents.calls };
  return `${said}, ${spent({ ...agents.money, calls: agents.calls })} spent${agents.assumed ? ` ${agents.assumed}` : ""}, ${spent(all)} with this session.`;
}

function drawSaid({ said, note }, session) {
  const gone = session.removed ? `, ${many(session.removed, "piece")} of work as a whole` : "";
  const over = session.view - session.budget;
  if (session.evicted > 0) said.textContent = `${short(session.evicted)} of ${short(session.history)} set aside${gone}. ${over > 0 ? `${short(over)} over the budget.` : `Room for ${short(-over)} more.`}`;
  else said.textContent = over > 0 ? `${short(over)} over the budget; nothing is set aside.` : `Room for ${short(-over)} more before anything is set aside.`;
  const unmet = session.satisfied ? "" : "The budget cannot be met: what must stay is too large.";
  note.textContent = [session.note || unmet, (session.thrashing || session.room || {}).warning].filter(Boolean).join(" ");
  note.hidden = !note.textContent;
}

// A person may keep a piece of work in view, or let it go now.
function choiceButtons(card, it, name) {
  const button = (label, choice, said) => h("button", { type: "button", class: "pill", "aria-label": `${label}: ${name}`, onclick: async () => {
    byId("said").textContent = (await choose(card.session.id, it.number, choice)) || `${name} ${said}`;
    tick();
  } }, label);
  if (it.choice) return [h("span", { class: "small" }, it.choice === "keep" ? "kept by you " : "let go by you "), button("Undo", "", "goes by the rules again")];
  return [button("Keep", "keep", "stays in view"), " ", button("Let go", "drop", "leaves with the next request")];
}

// Returns why it failed, or nothing.
async function choose(session, episode, choice) {
  try {
    const answer = await fetch(`session/${encodeURIComponent(session)}/choice`, { method: "POST", headers: { "x-wane-key": pageKey() }, body: JSON.stringify({ episode, choice }) });
    return answer.ok ? "" : await answer.text();
  } catch {
    return "The proxy does not answer.";
  }
}

// The rows are made when somebody looks.
function drawEpisodes(card) {
  const { session, details } = card;
  if (!session) return;
  card.episodes.setAttribute("aria-label", `What the last request of session ${session.id.slice(-8)} held`);
  if (!details.open) {
    card.episodes.replaceChildren();
    return;
  }
  const colours = new Map(card.bar.parts.map((part) => [part.kind, part.colour]));
  card.barKey.replaceChildren(...KINDS.filter(([kind]) => colours.has(kind)).map(([kind, text]) => h("li", {}, styled(h("i", { class: "dot" }), { background: KIND_COLOURS[kind] }), text)));
  const chooses = mayOpen() && session.episodes.length > 0;
  const row = (label, kind, state, tokens, colour, buttons) => h("tr", {},
    h("th", { scope: "row" }, styled(h("i", { class: "dot" }), { background: colour }), h("bdi", {}, label)), h("td", { class: "kind" }, kind), h("td", {}, state), h("td", { class: "n" }, n0(tokens)), chooses && h("td", { class: "choices" }, buttons));
  const fixed = card.bar.parts.filter((part) => part.fixed).map((part) => row(part.label, "", "always stays", part.tokens, part.colour));
  const called = namesIn(session);
  const rows = session.episodes.map((it) => row(called(it), it.name === null ? "" : WORDS.types[it.type] || it.type, stateOf(it), it.tokens, colourOf(it), it.type === "task" ? null : choiceButtons(card, it, called(it))));
  const heads = ["Piece of work", "Kind", "What is left of it", "Tokens", ...(chooses ? ["For the next request"] : [])].map((text, at) => h("th", { scope: "col", class: ["", "kind", "", "n", "choices"][at] || null }, text));
  card.episodes.replaceChildren(h("table", {}, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, fixed, rows)));
}
