// Asks the proxy how things stand, again and again, and puts the page together.

const EVERY = 2000; // milliseconds
const PATIENCE = 5000;
const BUSY = 300; // seconds
const BUSY_SECONDS = 15;
const cards = new Map();
const page = { data: null, answered: null, version: null, timer: 0, linked: false };

const keyLine = (...nodes) => svg("svg", { width: 22, height: 12, "aria-hidden": "true" }, nodes);
byId("key").append(
  h("li", {}, keyLine(svg("rect", { width: 22, height: 12, class: "history-area" })), "whole history"),
  h("li", {}, keyLine(svg("rect", { y: 4, width: 22, height: 8, class: "sent-area" }), svg("path", { d: "M0 4H22", class: "sent-line" })), "sent (thick line)"),
  h("li", {}, keyLine(svg("path", { d: "M0 6H22", class: "budgetline" })), "budget"),
  h("li", {}, keyLine(svg("path", { d: "M11 1v10", class: "aside" })), "work set aside"));

const TILES = {
  spent: ["Spent", "Input, cache reads, cache writes and output of each answered request, as the provider counted them, by the list price of its model."],
  marks: ["Marks cost", "The calls that only marked work, the words of the marks in all others, and content that was fetched again. It stands here even if nothing was ever set aside."],
  saved: ["Eviction saved", "For each call: what the whole history would have cost with the same cache, less what was sent. Writing the cache again after work was set aside is taken off."],
  net: ["Net", "The two figures before, subtracted. The cards below add up to these tiles, to the cent."],
};

// Dollars of all sessions, apart by where they come from.
function drawTiles(data) {
  const box = byId("tiles"), names = Object.keys(TILES);
  const priced = data.sessions.filter((it) => it.money), all = effectOf(data.sessions);
  box.hidden = !priced.length;
  if (!box.children.length) box.append(...names.flatMap((name) => tile({ id: `all-${name}`, what: TILES[name][0], value: "", then: false, bound: "", how: h("p", {}, TILES[name][1]) })));
  const whole = priced.length === data.sessions.length && priced.every((it) => it.money.priced_calls === it.money.calls);
  const of = priced.length < data.sessions.length ? ` Of ${n0(priced.length)} of ${many(data.sessions.length, "session")}; the others have no price.` : whole ? "" : " Some calls have no price.";
  const values = { spent: `${whole ? "" : "≥"}${usd(all.spent)}`, marks: usd(all.marks), saved: usd(all.saved), net: netText(all.net) };
  const bounds = { spent: `Paid to the provider, by list price${data.assumed ? `; models without one count ${data.assumed}` : ""}.${of}`, marks: "So that the agent notes where its work begins and ends. Estimated.", saved: "Against sending the whole history each time. Estimated.", net: "Eviction saved, less marks cost." };
  for (const name of names) {
    const node = byId(`all-${name}`);
    node.hidden = data.shadow && name !== "spent";
    setText(node.querySelector(".value"), values[name]);
    setText(node.querySelector(".bound"), bounds[name]);
  }
}

// Text that stays is left alone, so that a selection in it holds.
function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function facts(data) {
  const ended = Object.values(data.requests).reduce((sum, count) => sum + count, 0);
  const ours = data.strategy === "cwl" || data.strategy === "paper";
  const strategy = WORDS.strategies[data.strategy] || data.strategy;
  const rows = [
    ["Provider", data.upstream],
    ["What is set aside", ours ? `by ${strategy}, ${data.annotate === "model" ? "as the agent marks its work" : "as Wane reads the tool calls"}` : `by ${strategy}`],
    ["Budget", `${short(data.budget)} tokens`],
    data.member ? ["Name", data.member] : ["Requests", data.open ? `${n0(ended)}, ${n0(data.open)} open` : n0(ended)],
    ...(data.workers > 1 ? [["Processes", n0(data.workers)]] : []),
    ["Up for", span(between(data.started, data.now))],
  ];
  const list = byId("facts");
  if (list.children.length !== rows.length) {
    list.replaceChildren(...rows.map(() => h("div", {}, h("dt", {}), h("dd", {}))));
  }
  rows.forEach(([label, value], index) => {
    const [dt, dd] = list.children[index].children;
    setText(dt, label);
    setText(dd, value);
  });
  const failed = data.requests.failed_open || 0;
  byId("failed").hidden = !failed;
  setText(byId("failed"), `${many(failed, "request")} ${failed === 1 ? "was" : "were"} passed on unchanged, because Wane failed; the log says why.`);
}

// What was paid again although the provider had cached it, by cause; the largest first.
function again(data) {
  const causes = new Map();
  for (const [cause, entry] of data.sessions.flatMap((session) => Object.entries(session.rewritten))) {
    const sum = causes.get(cause) || { requests: 0, tokens: 0, dollars: 0, priced: 0 };
    for (const name of Object.keys(sum)) sum[name] += entry[name];
    causes.set(cause, sum);
  }
  const rows = [...causes].sort((a, b) => b[1].tokens - a[1].tokens);
  byId("again").hidden = !rows.length;
  byId("causes").replaceChildren(...rows.map(([cause, sum]) => h("tr", {}, h("th", { scope: "row" }, data.causes[cause] || cause),
    [n0(sum.requests), short(sum.tokens), bound(sum)].map((text) => h("td", { class: "n" }, text)))));
}

// Dollars of some requests: a lower bound if not all have a known price.
function bound(sum) {
  if (!sum.priced) return "not known";
  return `${sum.priced < sum.requests ? "≥" : ""}${dollars(sum.dollars)}`;
}

// What is left to do until there is a session: under `wane run` the agent is pointed here already.
function empty(data) {
  const box = byId("empty");
  if (box.children.length) return;
  if (data.agent) {
    box.append(
      h("h1", {}, `Waiting for the first request of ${data.agent}`),
      h("p", { class: "lead" }, `All is set: ${data.agent} was started with Wane in front of it. Ask it something; its session appears here with the first request that brings tools.`),
      h("h2", {}, "It has answered, and this page is still empty?"),
      h("ol", {}, h("li", {}, "Is it logged in? Without a login it makes no model call."),
        h("li", {}, "Is it the one that ", h("code", {}, `wane run ${data.agent}`), " started? Another, in an editor or a second terminal, does not go through Wane."),
        h("li", {}, "Did it use a tool yet? A question without tools passes as it is.")),
      h("p", { class: "small" }, `Budget ${short(data.budget)} tokens. Requests go to ${data.upstream} as before, and nowhere else.`));
    return;
  }
  // What stands before the page's own path is the proxy's, a token too.
  const base = new URL("..", location.href).href.replace(/\/$/, "");
  const command = (label, text) => {
    const pre = h("pre", {}, text);
    return [h("h2", {}, label), h("div", { class: "command" }, pre, copyButton(`Copy the command for ${label}`, () => text, pre))];
  };
  box.append(
    h("h1", {}, "No sessions yet"),
    h("p", { class: "lead" }, "Point your agent here: give it this address as its base URL. Its key stays as it is."),
    ...command("Claude Code, the Anthropic SDK", `export ANTHROPIC_BASE_URL=${base}`),
    ...command("The OpenAI SDK, and what builds on it", `export OPENAI_BASE_URL=${base}/v1`),
    h("p", { class: "small" }, "A session appears with its first request that brings tools. Those that have been idle leave memory, and come back with their next request."));
}

// Those that are busy stand in the order in which they began, so that they do not change places all the time.
// Sub-agents stand below the session that started them.
function inOrder(data) {
  const ids = new Set(data.sessions.map((it) => it.id));
  const idle = (it) => between(it.last, data.now) > BUSY;
  const below = (it) => [it, ...data.sessions.filter((other) => other.parent === it.id).flatMap(below)];
  const outer = data.sessions.filter((it) => !ids.has(it.parent));
  const busy = outer.filter((it) => !idle(it)).sort((a, b) => Date.parse(b.created) - Date.parse(a.created));
  return [...busy, ...outer.filter(idle)].flatMap(below);
}

function list(data) {
  const wanted = byId("find").value.trim().toLowerCase();
  const found = (it) => !wanted || [it.owner, it.title, it.model, it.api, it.id].some((text) => text.toLowerCase().includes(wanted));
  const there = new Set();
  let before = null;
  for (const session of inOrder(data)) {
    there.add(session.id);
    let card = cards.get(session.id);
    if (!card) cards.set(session.id, (card = sessionCard(session.id)));
    drawSession(card, session, data.now);
    card.node.hidden = !found(session);
    const next = before ? before.nextSibling : byId("list").firstChild;
    if (next !== card.node) byId("list").insertBefore(card.node, next);
    before = card.node;
  }
  for (const [id, card] of cards) {
    if (there.has(id)) continue;
    card.node.remove();
    cards.delete(id);
  }
}

function more(data) {
  const shown = [...cards.values()].filter((card) => !card.node.hidden).length;
  const hidden = data.sessions_in_memory - data.sessions.length;
  const texts = [];
  if (data.sessions.length && !shown) texts.push("No session matches.");
  if (hidden > 0) texts.push(`${many(hidden, "session")} used before these ${hidden === 1 ? "is" : "are"} in memory too.`);
  byId("more").textContent = texts.join(" ");
  byId("more").hidden = !texts.length;
}

function draw() {
  const { data } = page;
  if (!data) return;
  facts(data);
  again(data);
  byId("shadow").hidden = !data.shadow || !data.sessions.length;
  const none = !data.sessions.length;
  if (none) empty(data);
  byId("empty").hidden = !none;
  byId("full").hidden = none;
  const since = new Date(data.started).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  setText(byId("heading"), `${many(data.sessions_in_memory, "session")} since ${since}: what each would hold, what was sent, and what that cost or saved.`);
  byId("find").hidden = data.sessions.length < 5 && !byId("find").value;
  drawTiles(data);
  list(data);
  more(data);
  if (none || page.linked) return;
  page.linked = true;
  linkWords();
}

function say(problem) {
  const since = page.answered ? ` What is below is as of ${new Date(page.answered).toLocaleTimeString()}.` : "";
  const text = problem ? `${problem}${since} Asking again every ${EVERY / 1000} seconds.` : "";
  if (byId("lost").textContent !== text) byId("lost").textContent = text;
  byId("lost").hidden = !problem;
  byId("main").classList.toggle("stale", Boolean(problem));
  byId("pulse").textContent = problem ? "lost" : "live";
  byId("pulse").classList.toggle("on", !problem);
  document.title = problem ? "⚠ Your agents · Wane" : "Your agents, now · Wane";
}

async function ask() {
  let answer;
  try {
    answer = await fetch("status", { cache: "no-store", signal: AbortSignal.timeout(PATIENCE) });
  } catch {
    return "The proxy does not answer.";
  }
  if (!answer.ok) return `The proxy answers with HTTP ${answer.status}.`;
  try {
    page.data = await answer.json();
  } catch {
    return "The proxy's answer broke off.";
  }
  page.answered = Date.now();
  // Another version has another page.
  page.version ||= page.data.version;
  if (page.version !== page.data.version) location.reload();
  return "";
}

// What a proxy that only watches would have done. It takes seconds, so it is asked for.
async function predict() {
  const [button, list] = [byId("predict"), byId("predicted")];
  button.disabled = true;
  let lines = ["The proxy does not answer."];
  try {
    const answer = await fetch("shadow", { cache: "no-store" });
    if (answer.ok) ({ lines } = await answer.json());
  } catch { /* the proxy has gone */ }
  list.replaceChildren(...lines.map((line) => h("p", {}, line)));
  button.disabled = false;
}

async function tick() {
  clearTimeout(page.timer);
  if (!document.hidden) {
    say(await ask());
    draw();
  }
  clearTimeout(page.timer);
  page.timer = setTimeout(tick, EVERY);
}

byId("predict").addEventListener("click", predict);
byId("find").addEventListener("input", draw);
document.addEventListener("visibilitychange", () => { if (!document.hidden) tick(); });
startTheme();
tick();
