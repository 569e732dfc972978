// A session's window as a bar, to scale: what is in it, in order, and the room that is left up to the budget.

const PALE = { active: 100, closed: 66, reasoning: 50, bulk: 38, artifact: 28, remove: 18 };
const STATES = {
  active: "going on",
  closed: "closed",
  reasoning: "reasoning gone",
  bulk: "searches gone",
  artifact: "outputs gone",
  remove: "description left",
};
const TYPES = { expl: "exploration", act: "act", task: "task" };

const kindOf = (episode) => (episode.name === null ? "work" : TYPES[episode.type] ? episode.type : "expl");
const stateOf = (episode) => STATES[episode.state] || episode.state;
const placeOf = (episode) => `${episode.task ? ` in task ‘${episode.task}’` : ""}${episode.abandoned ? " (abandoned)" : ""}`;
const nameOf = (episode) => (episode.name === null ? "outside episodes" : `${TYPES[episode.type] || episode.type} ‘${episode.name}’${placeOf(episode)}`);

function colourOf(episode) {
  const share = PALE[episode.state] || PALE.closed;
  return `color-mix(in srgb, var(--${kindOf(episode)}) ${share}%, var(--surface))`;
}

// What a view consists of, scaled to what it holds: its size may be the provider's, those of its parts are estimates.
function partsOf(session) {
  const parts = [
    { label: "system prompt and tools", tokens: session.system, colour: "var(--other)" },
    { label: "user turns", tokens: session.user, colour: "var(--user)" },
    { label: "notices", tokens: session.notices, colour: "var(--notice)" },
  ];
  for (const it of session.episodes) parts.push({ label: `${nameOf(it)}, ${stateOf(it)}`, tokens: it.tokens - it.notices, colour: colourOf(it) });
  const known = parts.reduce((sum, it) => sum + it.tokens, 0);
  // What a request carries besides its messages: tool definitions, and a system prompt that is none of them.
  parts[0].tokens += Math.max(0, session.view - known);
  const scale = known > session.view ? session.view / known : 1;
  let at = 0;
  for (const it of parts) {
    it.from = at;
    at += it.tokens * scale;
    it.to = at;
  }
  if (session.budget > at) parts.push({ label: "free", tokens: session.budget - session.view, from: at, to: session.budget, colour: "var(--track)" });
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

// All that was said, as a line of its own scale: what has left the view is a ghost at its beginning.
function drawGhost(line, session) {
  const whole = Math.max(session.history, session.evicted, 1);
  line.hidden = session.evicted <= 0;
  line.firstChild.style.width = `${((100 * session.evicted) / whole).toFixed(2)}%`;
}

function showTip(event) {
  const bar = event.target.closest && event.target.closest(".bar");
  const tip = byId("tip");
  if (!bar || !bar.parts) {
    tip.hidden = true;
    return;
  }
  const box = bar.getBoundingClientRect();
  const at = ((event.clientX - box.left) / box.width) * bar.total;
  const part = bar.parts.find((it) => at >= it.from && at < it.to);
  tip.hidden = !part;
  if (!part) return;
  tip.replaceChildren(h("bdi", {}, part.label), h("b", {}, n0(part.tokens)));
  const left = Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8);
  tip.style.left = `${Math.max(8, left)}px`;
  tip.style.top = `${box.bottom + 6}px`;
}
addEventListener("pointermove", showTip, { passive: true });
addEventListener("pointerdown", showTip, { passive: true });
addEventListener("scroll", () => { byId("tip").hidden = true; }, { passive: true });
