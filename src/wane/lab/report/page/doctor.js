// Where the provider's cache broke: three figures, the causes, and the calls of each session in time.

// The colour of what was paid again is none of them.
const FILLS = ["var(--d)", "var(--b)", "var(--c)", "var(--reading)", "var(--task)", "var(--f)"];
// A shape for each cause, so that it can be told without its colour: around 0, 10 wide.
const SHAPES = ["M0 -5.5L5.5 5H-5.5z", "M-4.5 -4.5h9v9h-9z", "M0 -6L6 0L0 6L-6 0z", "M0 -5a5 5 0 1 0 .01 0z", "M0 5.5L5.5 -5H-5.5z", "M-1.8 -5.5h3.6v3.7h3.7v3.6h-3.7v3.7h-3.6v-3.7h-3.7v-3.6h3.7z"];
const causeAt = new Map(data.causes.map((it, at) => [it.cause, at]));
const fillOf = (cause) => FILLS[Math.min(causeAt.get(cause), FILLS.length - 1)];
// The first six are filled, those beyond hollow.
function markOf(cause, attributes) {
  const at = causeAt.get(cause), hollow = at >= SHAPES.length;
  return svg("path", { d: SHAPES[at % SHAPES.length], fill: hollow ? "var(--surface)" : fillOf(cause), stroke: hollow ? fillOf(cause) : "var(--surface)", "stroke-width": hollow ? 1.6 : 1, ...attributes });
}
const labelOf = (cause) => data.causes[causeAt.get(cause)].label;
const shapeMark = (cause) => svg("svg", { width: 14, height: 14, viewBox: "-7 -7 14 14", "aria-hidden": "true" }, markOf(cause));
const UNKNOWN = "not known";
const dollarsOf = (it) => it.cost || UNKNOWN;
// Causes are compared by their dollars or, where no price is known, by their tokens.
const inDollars = data.total.priced > 0;
const weightOf = (it) => (inDollars ? it.dollars : it.tokens);
const weight = data.causes.reduce((sum, it) => sum + weightOf(it), 0);
const share = (some, all) => (all ? `${Math.min(some === all ? 100 : 99, Math.round((100 * some) / all))}%` : "0%");

function heading() {
  const { times, compared, tokens, priced } = data.total, worst = data.causes[0];
  // Beside dollars stand the tokens that they cover.
  const all = `${data.total.at_most ? "at most " : ""}${short(tokens)} tokens`, partly = priced > 0 && priced < times;
  main.append(h("div", { class: "head" }, h("h1", {}, "Where the provider’s cache broke"),
    h("p", { class: "lead" }, "Each call of an agent sends the conversation again, which costs a tenth where the provider still has it. Below are the calls that paid in full again.")));
  if (!compared) {
    main.append(h("p", { class: "note" }, "None of these sessions recorded what the provider read from its cache, so that it is not known where it broke."));
    return;
  }
  main.append(h("div", { class: "tiles", role: "group", "aria-label": "In three figures" }, [
    tile({ id: "lost", what: "Paid again", value: times ? dollarsOf(data.total) : "$0.00", then: !times ? "the cache held" : partly ? `for ${short(data.total.priced_tokens)} tokens, at ${n0(priced)} of ${n0(times)} calls` : all, bound: priced < times ? `In all ${all}; no price is known for ${many(times - priced, "call")}.` : "On top of what reading from the cache would have cost.",
      how: [account([...data.causes.map((it) => [`${it.label} (${n0(it.times)})`, dollarsOf(it)]), ["In all", times ? dollarsOf(data.total) : "$0.00", true]], "Paid again, by cause"),
        h("p", { class: "small" }, "What a call wrote into the cache or read in full although the call before had put it there, less what reading it would have cost. After a compaction this is at most so: its summary is new.")] }),
    tile({ id: "times", what: "Calls at which it broke", value: [n0(times), h("small", {}, ` of ${n0(compared)}`)], then: share(times, compared), bound: data.total.without ? `${many(data.total.without, "call")} recorded no usage.` : "Of the calls that could be compared with the one before.",
      how: h("p", { class: "small" }, `A call counts if more than ${n0(data.smallest)} tokens that the call before had left in the cache were not read from it.`) }),
    tile({ id: "worst", what: "The largest cause", value: worst ? share(weightOf(worst), weight) : "none", then: worst ? worst.label : "", bound: worst ? marked(worst.hint) : "Nothing was paid again.",
      how: h("p", { class: "small" }, `Share of the ${inDollars ? "dollars, where they are known" : "tokens that were paid again"}. How causes are known, by tokens: ${Object.entries(data.certainty).map(([name, count]) => `${share(count, tokens)} ${name}`).join(", ") || "none"}.`) }),
  ].flat()));
}

function causes() {
  if (!data.causes.length) return;
  const most = Math.max(...data.causes.map(weightOf)) || 1;
  const body = section("causes", "Why, and what to do", `The ${inDollars ? "dearest" : "largest"} first. Colour and shape are those of the timelines below.`);
  body.append(h("ol", { class: "causes" }, data.causes.map((it) => h("li", {},
    h("span", {}, shapeMark(it.cause), " ", h("b", {}, it.label), h("span", { class: "small" }, ` ${many(it.times, "time")}, ${short(it.tokens)} tokens`)), h("span", { class: "dollars" }, dollarsOf(it)),
    h("span", { class: "lane" }, styled(h("i", {}), { width: `${(100 * weightOf(it)) / most}%`, background: fillOf(it.cause) })),
    h("span", { class: "small" }, marked(it.hint))))));
}

const knownBy = (one) => (one.evidence ? `${one.evidence} (${one.certainty})` : one.certainty);

// The input of each call: what was read from the cache (pale), what was new (grey), and what was paid again (red, with its cause on top).
function timeline(it) {
  const box = h("div", { class: "chart", tabindex: 0, role: "img" }), tip = h("div", { class: "tip", hidden: true });
  const broken = it.breaks, heading = h("h3", {}, it.title);
  const lost = broken.reduce((sum, one) => sum + one.tokens, 0);
  let picked = null, place = null;
  const draw = () => {
    const width = box.clientWidth;
    if (!width) return;
    const narrow = width < 500, left = 44, right = 10, top = 28, tall = narrow ? 120 : 140, bottom = top + tall, count = it.input.length;
    const most = Math.max(1, ...it.input) * 1.05, x = scale(0, Math.max(1, count), left, width - right), y = scale(0, most, bottom, top);
    const step = (values) => values.map((value, at) => `${at ? "" : `M${x(0).toFixed(1)} ${bottom}`}V${y(value).toFixed(1)}H${x(at + 1).toFixed(1)}`).join("") + `V${bottom}Z`;
    const wide = Math.max(2.5, Math.min(9, x(1) - x(0)));
    place = (one) => x(one.call + 0.5);
    const marks = ticks(1, count, narrow ? 3 : 8).filter((value) => Number.isInteger(value) && value > 1 && x(value) > left + 60);
    // Marks that would cover each other stand in two rows.
    let before = -99, row = 0;
    const shapes = broken.map((one) => {
      row = place(one) - before < 11 ? 1 - row : 0;
      before = place(one);
      return markOf(one.cause, { transform: `translate(${place(one).toFixed(1)},${row ? 11 : 20}) scale(0.9)` });
    });
    box.replaceChildren(svg("svg", { viewBox: `0 0 ${width} ${bottom + 24}`, height: bottom + 24, "aria-hidden": "true" }, patterns(`t${it.number}`),
      ticks(0, most, 3).map((value) => [svg("line", { class: "grid", x1: left, x2: width - right, y1: y(value), y2: y(value) }), svg("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, short(value))]),
      svg("path", { class: "input", d: step(it.input) }), svg("path", { class: "read", d: step(it.read) }),
      broken.map((one) => svg("rect", { class: "again", x: place(one) - wide / 2, width: wide, y: y(Math.min(it.input[one.call], it.read[one.call] + one.tokens)), height: Math.max(1.5, y(it.read[one.call]) - y(Math.min(it.input[one.call], it.read[one.call] + one.tokens))) })),
      picked !== null && svg("line", { class: "now", x1: place(broken[picked]), x2: place(broken[picked]), y1: top, y2: bottom }), shapes,
      svg("text", { x: left, y: bottom + 20 }, "call 1"), marks.map((value) => svg("text", { x: x(value - 0.5), y: bottom + 20, "text-anchor": value > 0.97 * count ? "end" : "middle" }, n0(value)))), tip);
  };
  const pick = (at) => {
    picked = at === null || !broken.length ? null : clamp(at, 0, broken.length - 1);
    draw();
    tip.hidden = picked === null;
    if (tip.hidden) return;
    const one = broken[picked];
    tip.replaceChildren(h("b", {}, `Call ${n0(one.call + 1)}: ${labelOf(one.cause)}`), h("span", {}, `${n0(one.tokens)} tokens paid again${one.dollars === null ? "" : `, ${usd(one.dollars)}`}`), h("span", {}, knownBy(one)), one.at && h("span", {}, new Date(one.at * 1000).toLocaleString()));
    const x = place(one);
    styled(tip, { top: "24px", left: `${clamp(x + 12 + tip.offsetWidth > box.clientWidth ? x - tip.offsetWidth - 12 : x + 12, 0, box.clientWidth)}px` });
  };
  const nearest = (event) => {
    const at = event.clientX - box.getBoundingClientRect().left;
    let best = 0;
    broken.forEach((one, index) => { if (Math.abs(place(one) - at) < Math.abs(place(broken[best]) - at)) best = index; });
    return best;
  };
  const leave = () => pick(null);
  box.addEventListener("pointermove", (event) => { if (place && broken.length) pick(nearest(event)); });
  box.addEventListener("pointerleave", leave);
  box.addEventListener("blur", leave);
  box.addEventListener("keydown", (event) => {
    const way = { ArrowLeft: -1, ArrowRight: 1, Home: -1e9, End: 1e9 }[event.key];
    if (!way || !broken.length) return;
    event.preventDefault();
    pick((picked ?? (way > 0 ? -1 : broken.length)) + way);
    byId("said").textContent = [...tip.children].map((line) => line.textContent).join(". ");
  });
  box.setAttribute("aria-label", `${many(it.input.length, "call")}; the cache broke at ${n0(broken.length)} of them. Arrow keys go from one to the next.`);
  onWidth(box, draw);
  const said = `${it.source ? `${it.source}, ` : ""}${many(it.input.length, "call")}; the cache broke at ${n0(broken.length)}: ${short(lost)} tokens paid again, ${it.cost || "at a price that is not known"}.`;
  return h("article", { class: "timeline" }, heading, h("p", { class: "small" }, said), box,
    tableOf(`Where the cache broke: ${it.title}`, ["Call", "Cause", "Tokens again", "Dollars", "How it is known"], broken.map((one) => [`Call ${n0(one.call + 1)}`, labelOf(one.cause), n0(one.tokens), one.dollars === null ? "–" : usd(one.dollars), knownBy(one)])));
}

function timelines() {
  if (!data.sessions.length) return;
  const body = section("calls", "The calls in time", "The height is a call’s input in tokens.");
  const key = (node, text) => h("li", {}, svg("svg", { width: 16, height: 12, "aria-hidden": "true" }, patterns("key"), node), text);
  body.append(h("ul", { class: "key", "aria-label": "Key" },
    key(svg("rect", { width: 16, height: 12, class: "read" }), "read from the cache"), key(svg("rect", { width: 16, height: 12, class: "input" }), "new"), key(svg("rect", { x: 5, width: 6, height: 12, class: "again" }), "paid again"),
    data.causes.map((it) => h("li", {}, shapeMark(it.cause), it.label))));
  body.append(...data.sessions.map(timeline));
  if (data.more) body.append(h("p", { class: "small" }, `${many(data.more, "session")} with smaller losses or none ${data.more === 1 ? "is" : "are"} not drawn.`));
}

heading();
causes();
timelines();
main.append(h("p", { id: "said", class: "away", "aria-live": "polite" }));
linkWords();
startTheme();
