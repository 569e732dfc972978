// A session's window as a bar, to scale: what is in it, in order, and the room that is left up to the budget.

const PALE = { active: 100, closed: 66, reasoning: 50, bulk: 38, artifact: 28, remove: 18 };
const STATES = {
  active: "all of it, going on",
  closed: "all of it",
  reasoning: "all but its reasoning",
  bulk: "its results, without searches",
  artifact: "the calls, without outputs",
  remove: "a description",
};
const KINDS = [["system", "system prompt and tools"], ["user", "your messages"], ["notice", "notices of your agent"], ["expl", "reading"], ["act", "work"], ["task", "task"], ["work", "outside pieces of work"], ["free", "free"]];
const KIND_COLOURS = { system: "var(--other)", user: "var(--ink)", notice: "var(--notice)", expl: "var(--reading)", act: "var(--work)", task: "var(--task)", work: "var(--outside)", free: "var(--track)" };

const kindOf = (episode) => (episode.name === null ? "work" : WORDS.types[episode.type] ? episode.type : "expl");
const stateOf = (episode) => STATES[episode.state] || episode.state;
const placeOf = (episode) => `${episode.task ? ` in task ‘${episode.task}’` : ""}${episode.abandoned ? " (abandoned)" : ""}`;
// Returns what a session's pieces are called, so that no two are called alike.
function namesIn(session) {
  const names = pieceNames(session.episodes.map((it) => it.name ?? "")), outside = session.episodes.filter((it) => it.name === null);
  return (it) => (it.name !== null ? names.get(it.name) : `outside pieces of work${outside.length > 1 ? ` #${it.number}` : ""}`);
}
const nameOf = (episode, called) => (episode.name === null ? called(episode) : `${WORDS.types[episode.type] || episode.type} ‘${called(episode)}’${placeOf(episode)}`);

function colourOf(episode) {
  const share = PALE[episode.state] || PALE.closed;
  return `color-mix(in srgb, ${KIND_COLOURS[kindOf(episode)]} ${share}%, var(--surface))`;
}

// What a view consists of, scaled to what it holds: its size may be the provider's, those of its parts are estimates.
function partsOf(session) {
  const fixed = (kind, label, tokens) => ({ kind, label, tokens, colour: KIND_COLOURS[kind], fixed: true });
  const parts = [
    fixed("system", "system prompt and tools", session.system),
    fixed("user", "your messages", session.user),
    fixed("notice", "notices of your agent", session.notices),
  ];
  const called = namesIn(session);
  for (const it of session.episodes) parts.push({ kind: kindOf(it), label: `${nameOf(it, called)}, ${stateOf(it)}`, tokens: it.tokens - it.notices, colour: colourOf(it) });
  const known = parts.reduce((sum, it) => sum + it.tokens, 0);
  // What a request carries besides its messages: tool definitions, and a system prompt that is none of them.
  parts[0].tokens += Math.max(0, session.view - known);
  const ratio = known > session.view ? session.view / known : 1;
  let at = 0;
  for (const it of parts) {
    it.from = at;
    at += it.tokens * ratio;
    it.to = at;
  }
  if (session.budget > at) parts.push({ kind: "free", label: "free", tokens: session.budget - session.view, from: at, to: session.budget, colour: "var(--track)" });
  return parts.filter((it) => it.to > it.from);
}

// One background instead of an element for each part: hundreds of sessions of hundreds of episodes stay light.
function stripes(parts, total) {
  const stops = parts.map((it, index) => {
    const from = (100 * it.from) / total, to = (100 * it.to) / total;
    const last = index === parts.length - 1 || to - from < 0.5;
    const end = last ? `${to.toFixed(3)}%` : `calc(${to.toFixed(3)}% - 1px)`;
    const gap = last ? "" : `, var(--surface) ${end} ${to.toFixed(3)}%`;
    return `${it.colour} ${from.toFixed(3)}% ${end}${gap}`;
  });
  return `linear-gradient(to right, ${stops.join(", ")})`;
}

function drawBar(bar, session) {
  const parts = partsOf(session), total = Math.max(session.budget, session.view, 1);
  bar.style.backgroundImage = stripes(parts, total);
  bar.setAttribute("aria-label", `${n0(session.view)} of ${n0(session.budget)} tokens: ${parts.slice(0, 40).map((it) => `${it.label} ${n0(it.tokens)}`).join("; ")}`);
  bar.parts = parts;
  bar.total = total;
  const limit = bar.firstChild;
  limit.hidden = session.view <= session.budget;
  limit.style.left = `${(100 * session.budget) / total}%`;
}

// What a part of the bar is, under the pointer.
const partTip = h("div", { class: "tip part", hidden: true });
document.body.append(partTip);
function showPart(event) {
  const bar = event.target.closest && event.target.closest(".bar");
  partTip.hidden = !bar || !bar.parts;
  if (partTip.hidden) return;
  const box = bar.getBoundingClientRect();
  const at = ((event.clientX - box.left) / box.width) * bar.total;
  const part = bar.parts.find((it) => at >= it.from && at < it.to);
  partTip.hidden = !part;
  if (!part) return;
  partTip.replaceChildren(h("bdi", {}, part.label), h("b", {}, n0(part.tokens)));
  styled(partTip, { left: `${Math.max(8, Math.min(event.clientX + 12, innerWidth - partTip.offsetWidth - 8))}px`, top: `${box.bottom + 6}px` });
}
addEventListener("pointermove", showPart, { passive: true });
addEventListener("pointerdown", showPart, { passive: true });
addEventListener("scroll", () => { partTip.hidden = true; }, { passive: true });
