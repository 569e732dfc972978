// Asks the proxy how things stand, again and again, and puts the page together.

const EVERY = 2000; // milliseconds
const PATIENCE = 5000;
const BUSY = 300; // seconds
const cards = new Map();
const page = { data: null, answered: null, version: null, timer: 0 };

function facts(data) {
  const ended = Object.values(data.requests).reduce((sum, count) => sum + count, 0);
  const rows = [
    ["Upstream", data.upstream],
    ["Strategy", data.strategy === "cwl" || data.strategy === "paper" ? `${data.strategy}, ${data.annotate === "model" ? "marked by the model" : "inferred"}` : data.strategy],
    ["Budget", `${short(data.budget)} tokens`],
    data.member ? ["Name", data.member] : ["Requests", data.open ? `${n0(ended)}, ${n0(data.open)} open` : n0(ended)],
    ...(data.workers > 1 ? [["Processes", n0(data.workers)]] : []),
    ["Up for", span(between(data.started, data.now))],
  ];
  if (data.money) {
    const { marks, saved, net } = effect(data.money);
    rows.push(["Spent by these sessions", spent(data.money)]);
    if (!data.shadow) rows.push(["Marks cost, about", cents(marks)], ["Eviction saved, about", cents(saved)], ["Net, about", cents(net)]);
  }
  const failed = data.requests.failed_open || 0;
  if (failed) rows.push(["Passed on unchanged, as Wane failed", n0(failed)]);
  // Text of rows that stay is changed in place, so that a selection in them holds.
  const list = byId("facts");
  if (list.children.length !== rows.length) {
    list.replaceChildren(...rows.map(() => h("div", {}, h("dt", {}), h("dd", {}))));
  }
  rows.forEach(([label, value], index) => {
    const [dt, dd] = list.children[index].children;
    if (dt.textContent !== label) dt.textContent = label;
    if (dd.textContent !== value) dd.textContent = value;
  });
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
  byId("causes").replaceChildren(...rows.map(([cause, sum]) => h("tr", {},
    [cause, n0(sum.requests), short(sum.tokens), bound(sum)].map((text) => h("td", {}, text)))));
}

// Dollars of some requests: a lower bound if not all have a known price.
function bound(sum) {
  if (!sum.priced) return "not known";
  return `${sum.priced < sum.requests ? "at least " : ""}${dollars(sum.dollars)}`;
}

function empty() {
  const box = byId("empty");
  if (box.children.length) return;
  // What stands before the page's own path is the proxy's, a token too.
  const base = new URL("..", location.href).href.replace(/\/$/, "");
  box.append(
    h("h1", {}, "No sessions yet"),
    h("p", { class: "lead" }, "Point your agent here: give it this address as its base URL. Its key stays as it is."),
    h("pre", {}, `export ANTHROPIC_BASE_URL=${base}\nexport OPENAI_BASE_URL=${base}/v1`),
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
    if (!card) cards.set(session.id, (card = sessionCard()));
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
  if (none) empty();
  byId("empty").hidden = !none;
  byId("tools").hidden = none;
  byId("heading").textContent = many(data.sessions_in_memory, "session");
  byId("find").hidden = data.sessions.length < 5 && !byId("find").value;
  list(data);
  more(data);
}

// What went wrong with the last question, or nothing.
function say(problem) {
  const since = page.answered ? ` What is below is as of ${new Date(page.answered).toLocaleTimeString()}.` : "";
  const text = problem ? `${problem}${since} Asking again every ${EVERY / 1000} seconds.` : "";
  if (byId("lost").textContent !== text) byId("lost").textContent = text;
  byId("lost").hidden = !problem;
  byId("main").classList.toggle("stale", Boolean(problem));
  byId("pulse").textContent = problem ? "lost" : "live";
  byId("pulse").classList.toggle("live", !problem);
  document.title = problem ? "⚠ Wane proxy" : "Wane proxy";
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

const THEMES = ["auto", "light", "dark"];

function theme(name) {
  document.documentElement.dataset.theme = THEMES.includes(name) ? name : "auto";
  byId("theme").textContent = `Theme: ${document.documentElement.dataset.theme}`;
}

function remembered(value) {
  // A browser may refuse a page its memory.
  try {
    if (value !== undefined) localStorage.setItem("wane-theme", value);
    return localStorage.getItem("wane-theme");
  } catch {
    return null;
  }
}

byId("theme").addEventListener("click", () => {
  const next = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length];
  remembered(next);
  theme(next);
});
byId("predict").addEventListener("click", predict);
byId("find").addEventListener("input", draw);
document.addEventListener("visibilitychange", () => { if (!document.hidden) tick(); });
theme(remembered() || "auto");
tick();
