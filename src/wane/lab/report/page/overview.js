const data = JSON.parse(document.getElementById("data").textContent);
const UNKNOWN = "not known";
// Neither the blue of Wane nor the orange of what was lost, which stand on this page too.
const FILLS = ["var(--c)", "url(#p-d)", "url(#p-f)", "url(#p-e)", "url(#p-c)"];
const fillOf = (at) => FILLS[Math.min(at, FILLS.length - 1)];
// The year only where days of several years are told.
const year = data.since.slice(0, 4) === data.until.slice(0, 4) ? undefined : "numeric";
const day = (iso, long) => new Intl.DateTimeFormat("en-GB", { day: "numeric", month: long ? "long" : "short", year, timeZone: "UTC" }).format(new Date(`${iso}T00:00:00Z`));
const agents = data.agents.map((it) => it.name);
const total = data.total, spent = total.dollars ?? 0, unpriced = total.calls - total.priced;
const messages = data.words.reduce((sum, it) => sum + it.messages, 0), words = data.words.reduce((sum, it) => sum + it.words, 0);
const taking = data.compactions_taking_words;
const taken = taking ? `By ${taking < data.compactions ? `${n0(taking)} of ` : ""}${many(data.compactions, "compaction")}, in ${many(data.words.length, "session")}.` : data.compactions ? `${many(data.compactions, "compaction")} took none.` : "There was no compaction.";
const compared = data.compared, [low, high] = compared ? compared.with_wane_usd : [0, 0], before = compared ? compared.without_wane_usd : 0;
const counted = (calls, amount) => `The output of ${many(calls, "call")} was not recorded, and is in no cost${amount ? `: about ${usd(amount)} by its text` : ""}.`;
// A sum that leaves calls out is a lower bound, and says so.
const bounded = (part) => (part.dollars === null ? UNKNOWN : `${part.complete ? "" : "≥"}${usd(part.dollars)}`);
const amounts = (from, to) => (usd(from) === usd(to) ? usd(from) : `${usd(from)} to ${usd(to)}`);
const within = `${n0(data.budget)} tokens${data.compared?.raised_to_tokens ? ` (up to ${n0(data.compared.raised_to_tokens)} where that leaves too little room)` : ""}`;
const sides = (pair) => (pair ? `${usd(pair.without_wane_usd)} → ${amounts(...pair.with_wane_usd)}` : UNKNOWN);
const round = (value) => (value < 100 ? usd(value) : `$${n0(value)}`);
// A share that is not all is never rounded to all, and one that is not nothing never to nothing.
const part = (some, all) => (some === all ? "all" : `${Math.min(99, Math.max(some ? 1 : 0, Math.round((100 * some) / all)))}%`);
byId("title").textContent = data.title;
byId("lead").textContent = `${many(data.sessions_in_all, "session")} with ${many(total.calls, "call")}, ${data.since === data.until ? "" : `${day(data.since, true)} to `}${day(data.until, true)}: what they cost, where money and words were lost, and what Wane would have saved.`;

const missing = [];
if (unpriced) missing.push(`The cost of ${many(unpriced, "call")} is not known, or only in part.`);
if (total.estimated) missing.push(counted(total.estimated, total.guessed));
if (total.summaries) missing.push(`What wrote ${many(total.summaries, "summary", "summaries")} was not recorded.`);
const broken = data.paid_again;
const again = broken.times ? broken.cost || UNKNOWN : usd(0);
byId("tiles").append(...[
  tile({ id: "spent", what: "Spent", value: bounded(total), then: `over all ${n0(total.calls)} calls, known in full for ${part(total.priced, total.calls)}`, bound: missing.length ? `At least. ${missing.join(" ")}` : "The cost of each call is known.",
    how: [account([...data.agents.map((it) => [`${it.name}: ${n0(it.priced)} of ${n0(it.calls)} calls in full`, bounded(it)]), ["In all", bounded(total), true]], "What was spent, by agent"),
      h("p", { class: "small" }, "Where the agent recorded a cost, that, 0 of a subscription included; else the tokens that the provider counted, by the list price of the day.")] }),
  tile({ id: "broke", what: "Paid again as the cache broke", value: total.cache_known ? again : UNKNOWN, then: spent ? `about ${part(broken.dollars, spent)} of the known cost` : "", bound: `${many(broken.times, "time")}, over ${part(total.cache_known, total.calls)} of the calls; the causes are below.`,
    how: [account([...data.causes.map((it) => [`${it.label} (${n0(it.times)})`, it.cost || UNKNOWN]), ["In all", again, true]], "Cache rewrites by cause"),
      h("p", { class: "small" }, "What a call wrote into the cache or read in full although the call before had put it there, less what reading it from the cache would have cost. After a compaction this is at most so: its summary is new.")] }),
  tile({ id: "taken", what: "Your messages lost to compactions", value: [n0(messages), h("small", {}, messages === 1 ? " message" : " messages")], then: `${many(words, "word")} of yours`, bound: `${taken} Wane keeps all of them.`,
    how: [account([...data.words.map((it) => [it.title, many(it.messages, "message")]), ["In all", many(messages, "message"), true]], "Messages lost, by session"),
      h("p", { class: "small" }, "Messages that you typed before a compaction, and that neither its summary nor a later call held word for word.")] }),
  tile({ id: "would", what: "Without Wane, and with it", value: compared ? `${round(before)} → ${round(low) === round(high) ? round(low) : `${round(low)} to ${round(high)}`}` : UNKNOWN, then: compared ? `${compared.saving || "no saving"}, over ${n0(compared.calls)} of ${n0(total.calls)} calls` : "", bound: `${compared && compared.calls < total.calls ? "Other calls than those of what was spent: only those whose cost can be told in both. " : ""}Simulated within ${within}${data.managed ? `; in ${many(data.managed_sessions, "session")} Wane was at work` : ""}.`,
    how: [account([...data.agents.map((it) => [it.name, sides(it.compared)]), ["In all", sides(compared), true]], "Without Wane and with it, by agent"),
      h("p", { class: "small" }, "The calls of which both can be told; without Wane is, for each session, the lower cost of as recorded and, simulated, if nothing is evicted; one that fits counts as recorded in both. The low cost has none of the cache misses that no strategy causes (pauses, tools, prompts, the provider), the high one all that were recorded. Fetching again is in both. Where Wane was at work, the cost with it is what was recorded, and the one without it is estimated.")] }),
].flat());

const swatch = (fill) => svg("svg", { width: 16, height: 12, "aria-hidden": "true" }, svg("rect", { width: 16, height: 12, rx: 2, fill }));
byId("dayskey").append(...data.agents.map((it, at) => h("li", {}, swatch(fillOf(at)), `${it.name} ${bounded(it)}`)));

const tip = h("div", { class: "tip", hidden: true });
const sum = (values) => values.reduce((all, value) => all + value, 0);
const chart = byId("dayschart");
let picked = null;
let step = 1;
function drawDays() {
  const width = chart.clientWidth;
  if (!width) return;
  const narrow = width < 500, left = 44, right = 4, top = 8, bottom = top + (narrow ? 150 : 190), most = (Math.max(...data.days.map((it) => sum(it[1]))) || 1) * 1.05;
  step = (width - left - right) / data.days.length;
  const y = scale(0, most, bottom, top), wide = Math.max(3, step * 0.72), label = year ? 84 : 56;
  // A label needs its room, and with a year more of it; the first one begins at the axis.
  const every = Math.max(Math.ceil(data.days.length / (narrow ? 3 : 6)), Math.ceil((1.5 * label) / step));
  const bars = data.days.map(([, values], at) => {
    let base = 0;
    return values.map((value, agent) => {
      const from = y(base + value), until = y(base);
      base += value;
      return value > 0 && svg("rect", { x: left + at * step + (step - wide) / 2, width: wide, y: from, height: Math.max(0.5, until - from - 0.8), fill: fillOf(agent) });
    });
  });
  chart.replaceChildren(svg("svg", { viewBox: `0 0 ${width} ${bottom + 22}`, height: bottom + 22, "aria-hidden": "true" }, patterns("p"),
    picked !== null && svg("rect", { class: "hit on", x: left + picked * step, width: step, y: top, height: bottom - top }),
    ticks(0, most, 3).map((value) => [svg("line", { class: "grid", x1: left, x2: width - right, y1: y(value), y2: y(value) }), svg("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, Number.isInteger(value) ? `$${n0(value)}` : usd(value))]), bars,
    data.days.map(([iso], at) => at % every === 0 && (!at || left + (at + 0.5) * step + label / 2 <= width) && svg("text", { x: left + (at + 0.5) * step, y: bottom + 17, "text-anchor": at ? "middle" : "start" }, day(iso)))), tip);
}
const dayOf = ([, values, bounds], at) => (values[at] === null ? UNKNOWN : `${bounds[at] ? "≥" : ""}${usd(values[at])}`);
const dayInAll = ([, values, bounds]) => (values.every((value, at) => value === null || (value === 0 && !bounds[at])) && values.includes(null) ? UNKNOWN : `${bounds.includes(true) ? "≥" : ""}${usd(sum(values))}`);
const said = (row) => `${day(row[0], true)}: ${dayInAll(row)}${agents.length > 1 ? `; ${agents.map((name, at) => `${name} ${dayOf(row, at)}`).join(", ")}` : ""}`;
function point(at) {
  picked = at === null ? null : clamp(at, 0, data.days.length - 1);
  drawDays();
  tip.hidden = picked === null;
  const shown = picked ?? data.days.length - 1;
  chart.setAttribute("aria-valuenow", shown + 1);
  chart.setAttribute("aria-valuetext", said(data.days[shown]));
  if (picked === null) return;
  const row = data.days[picked], x = 44 + (picked + 0.5) * step;
  tip.replaceChildren(h("b", {}, `${day(row[0], true)}: ${dayInAll(row)}`), ...agents.map((name, agent) => h("span", {}, `${name} ${dayOf(row, agent)}`)));
  styled(tip, { top: "4px", left: `${clamp(x + 14 + tip.offsetWidth > chart.clientWidth ? x - tip.offsetWidth - 14 : x + 14, 0, chart.clientWidth)}px` });
}
fill(chart, { tabindex: 0, role: "slider", "aria-label": "Day", "aria-valuemin": 1, "aria-valuemax": data.days.length }, []);
chart.addEventListener("pointermove", (event) => point(Math.floor((event.clientX - chart.getBoundingClientRect().left - 44) / step)));
chart.addEventListener("pointerleave", () => point(null));
chart.addEventListener("blur", () => point(null));
chart.addEventListener("keydown", (event) => {
  const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!move) return;
  event.preventDefault();
  point((picked ?? data.days.length) + move);
});
onWidth(chart, drawDays);
point(null);
byId("daystable").append(tableOf("Dollars by day and agent", ["Day", ...agents, "In all"], data.days.map((row) => [day(row[0], true), ...agents.map((_, at) => dayOf(row, at)), dayInAll(row)])));

const figures = (heads, rows, caption, name) => h("table", { class: name }, h("caption", { class: "away" }, caption),
  h("thead", {}, h("tr", {}, heads.map(([text, kind]) => h("th", { scope: "col", class: kind || null }, text)))),
  h("tbody", {}, rows.map((row) => h("tr", {}, row.map((text, at) => h(at ? "td" : "th", { scope: at ? null : "row", class: heads[at][1] || null }, text))))));
byId("modelstable").append(figures(
  [["Model"], ["Calls", "n"], ["Input", "n opt"], ["From the cache", "n opt"], ["Output", "n opt"], ["Cost", "n"]],
  data.models.map((it) => [it.model || "no model recorded", n0(it.calls), it.input ? short(it.input) : UNKNOWN, it.input && it.cache_known ? part(it.read, it.input) : UNKNOWN, `${it.estimated ? "≈" : ""}${short(it.output)}`, bounded(it)]),
  "Calls, tokens and dollars by model", "sessions"));

const lane = (share, soft) => h("div", { class: `lane ${soft ? "soft" : ""}`, "aria-hidden": "true" }, styled(h("i", {}), { width: `${100 * clamp(share, 0, 1)}%` }));
const largest = Math.max(...data.causes.map((it) => it.dollars), 0) || 1;
byId("causes").append(...data.causes.map((it) => h("li", {}, h("b", {}, it.label), h("span", { class: "dollars" }, it.cost || UNKNOWN), lane(it.dollars / largest, it.cause === "unexplained"), h("span", { class: "small" }, `${many(it.times, "time")}${it.inferred ? `, ${it.inferred === it.times ? "" : `${n0(it.inferred)} of them `}inferred` : ""}. `, marked(it.advice)))));
if (!data.causes.length) byId("causes").append(h("li", {}, h("span", { class: "small" }, total.cache_known ? "It never did." : "These recordings do not show what the cache did.")));

byId("lost").append(data.words.length ? h("ul", { class: "losses" }, data.words.map((it) => h("li", {},
  h("div", { class: "line" }, h("span", {}, it.title), h("b", {}, many(it.messages, "message"))),
  h("p", { class: "small" }, `${agents[it.agent]}, ${day(it.day)}, ${many(it.compactions_taking_words, "compaction")}, ${many(it.words, "word")}`),
  it.texts.length > 0 && h("details", {}, h("summary", {}, it.texts.length === it.messages ? "Read them" : `Read ${it.texts.length} of ${n0(it.messages)}`, h("span", { class: "away" }, `: ${it.title}`)), it.texts.map((text) => h("blockquote", {}, text)))))) : h("p", { class: "small" }, "None did."));

byId("terms").textContent = `Over ${part(compared ? compared.calls : 0, total.calls)} of the calls, of which both costs can be told. Without Wane is, for each session, the lower cost of as recorded${total.estimated ? " (with output that was not recorded by its text)" : ""} and, simulated, if nothing is evicted; with Wane is simulated within ${within}, with fetching again: a range, as cache misses that no strategy causes may have come with Wane, too.${data.managed ? ` Wane was at work in ${many(data.managed_sessions, "session")}, which count as recorded: about ${sides(data.managed)}.` : ""}`;
byId("keeps").textContent = data.in_view === null ? "" : `${part(data.in_view, 1)} of the names that later calls used would still have been in view.`;
byId("savingkey").append(
  h("li", {}, svg("svg", { width: 22, height: 12, "aria-hidden": "true" }, svg("rect", { x: 1, y: 1, width: 20, height: 10, class: "spentbar" })), "without Wane"),
  h("li", {}, svg("svg", { width: 22, height: 12, "aria-hidden": "true" }, svg("rect", { width: 22, height: 12, class: "wanebar" })), "with Wane, at least"),
  h("li", {}, svg("svg", { width: 22, height: 12, "aria-hidden": "true" }, patterns("k"), svg("rect", { width: 22, height: 12, fill: "url(#k-gone)" })), "to at most"));
const entries = [...data.agents.map((it) => [it.name, it.compared]), ["In all", compared]].map(([name, pair]) => [name, pair ? pair.without_wane_usd : 0, pair && pair.with_wane_usd, sides(pair)]);
onWidth(byId("savingchart"), (width) => {
  const longest = Math.max(...entries.map(([name]) => name.length));
  const narrow = width < 620, left = narrow ? 0 : 16 + 8 * longest, right = narrow ? 0 : 260, pitch = narrow ? 58 : 42;
  const x = scale(0, Math.max(...entries.map((it) => Math.max(it[1], it[2] ? it[2][1] : 0))) || 1, left, width - right);
  byId("savingchart").replaceChildren(svg("svg", { viewBox: `0 0 ${width} ${entries.length * pitch}`, height: entries.length * pitch, role: "img", "aria-label": `The cost without Wane and with it, of the calls of which both can be told. ${entries.map((it) => `${it[0]}: ${it[3]}`).join("; ")}.` }, patterns("s"),
    entries.map((it, at) => {
      const [name, dollars, range] = it, top = at * pitch + (narrow ? 22 : 8), tall = 24, last = at === entries.length - 1;
      return [
        svg("text", { class: `who ${last ? "all" : ""}`, x: narrow ? 0 : left - 10, y: narrow ? top - 7 : top + 17, "text-anchor": narrow ? "start" : "end" }, name),
        svg("rect", { class: "spentbar", x: x(0) + 0.6, y: top, width: Math.max(1, x(dollars) - x(0) - 1.2), height: tall }),
        range && dollars > 0 && [svg("rect", { class: "wanebar", x: x(0), y: top, width: Math.max(0, x(range[0]) - x(0)), height: tall }), svg("rect", { fill: "url(#s-gone)", x: x(range[0]), y: top, width: Math.max(0, x(range[1]) - x(range[0])), height: tall }), svg("path", { class: "maybe", d: `M${x(range[1])} ${top}v${tall}` })],
        svg("text", { class: "said", x: narrow ? width : Math.max(x(dollars), range ? x(range[1]) : 0) + 10, y: narrow ? top - 7 : top + 16, "text-anchor": narrow ? "end" : "start" }, it[3]),
      ];
    })));
});

// Sessions, by what they cost; the bar is a share of the dearest.
const dearest = Math.max(...data.sessions.map((it) => it.dollars || 0), 0) || 1;
function list(agent) {
  const shown = data.sessions.filter((it) => agent === "all" || agents[it.agent] === agent);
  byId("list").replaceChildren(h("table", { class: "sessions" }, h("caption", { class: "away" }, "Sessions by cost"),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Session"), h("th", { scope: "col", class: "opt" }, "Agent"), h("th", { scope: "col", class: "opt" }, "Last call"), h("th", { scope: "col", class: "n" }, "Calls"), h("th", { scope: "col", class: "n" }, "Cost"), h("th", { scope: "col" }, h("span", { class: "away" }, "Size")))),
    h("tbody", {}, shown.map((it) => h("tr", {}, h("th", { scope: "row" }, it.title), h("td", { class: "opt" }, agents[it.agent]), h("td", { class: "opt" }, day(it.day)), h("td", { class: "n calls" }, n0(it.calls)), h("td", { class: "n" }, bounded(it)), h("td", { class: "size" }, it.dollars === null ? null : lane(it.dollars / dearest)))))));
}
if (agents.length > 1) byId("which").append(seg("Agent", [["all", "All"], ...agents.map((name) => [name, name])], "all", list));
if (data.sessions.length < data.sessions_in_all) byId("listed").textContent = `The ${n0(data.sessions.length)} dearest of ${n0(data.sessions_in_all)}.`;
list("all");

const share = (some, all) => [some === all ? "all" : `${n0(some)} (${part(some, all)})`, lane(all ? some / all : 0)];
byId("shares").append(h("table", { class: "shares" }, h("caption", { class: "away" }, "Calls of which the cost, the cache and the cost with Wane are known, by agent"),
  h("thead", {}, h("tr", {}, ["Agent, calls", "Cost known in full", "Cache known", "With Wane known"].map((text) => h("th", { scope: "col" }, text)))),
  h("tbody", {}, data.agents.map((it) => h("tr", {}, h("th", { scope: "row" }, it.name, h("br", {}), h("span", { class: "small" }, n0(it.calls))), h("td", {}, share(it.priced, it.calls)), h("td", {}, share(it.cache_known, it.calls)), h("td", {}, share(it.compared ? it.compared.calls : 0, it.calls)))))));
const notes = [];
if (total.estimated) notes.push(counted(total.estimated, total.guessed));
if (data.not_replayed) notes.push(`${many(data.not_replayed, "session")} beyond the budget not replayed yet, so that no saving of theirs is told.`);
if (data.counted_in_part) notes.push(`Of ${many(data.counted_in_part, "session")} only some calls count here: of what was compared, as much as their share of the cost.`);
if (data.scripted) notes.push(`${many(data.scripted, "session")} left out, as a script answered in the model's place, as in the demo: nothing was paid.`);
if (data.undated) notes.push(`${many(data.undated, "call")} without a time count on the day when their file was last written.`);
if (data.unread) notes.push(`${many(data.unread, "file")} could not be read.`);
if (notes.length) byId("shares").append(h("p", { class: "small" }, notes.join(" ")));

linkWords();
startTheme();
