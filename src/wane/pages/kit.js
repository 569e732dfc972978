// What the scripts of all pages share: elements, numbers, scales, tiles and tables.

const byId = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

// Contents go in as text nodes and attributes alone, never as markup.
function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat(3)) if (child !== null && child !== undefined && child !== false) node.append(child);
  return node;
}
const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
// A strict policy for styles forbids style attributes; setting properties from a script is allowed.
function styled(node, styles) {
  for (const [key, value] of Object.entries(styles)) node.style.setProperty(key, value);
  return node;
}

// Words between backticks are set as code.
const marked = (text) => text.split("`").map((piece, at) => (at % 2 ? h("code", {}, piece) : piece));

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const cents = new Intl.NumberFormat("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const n0 = (value) => whole.format(value);
const usd = (value) => `${value < 0 ? "−" : ""}$${cents.format(Math.abs(value))}`;
const many = (count, noun, plural) => `${n0(count)} ${count === 1 ? noun : plural || `${noun}s`}`;
// An inferred piece of work has its kind and number in its name, so that no two are called alike; where the kind stands beside it, the rest says more.
// Those whose rest is the same keep the number.
function pieceNames(names) {
  const rests = names.map((name) => /^(?:reading|work)-(\d+):(.+)$/s.exec(name)), times = new Map();
  for (const rest of rests) if (rest) times.set(rest[2], 1 + (times.get(rest[2]) || 0));
  return new Map(names.map((name, at) => [name, !rests[at] ? name : times.get(rests[at][2]) > 1 ? `#${rests[at][1]} ${rests[at][2]}` : rests[at][2]]));
}
const clamp = (value, low, high) => Math.min(high, Math.max(low, value));
const round1 = (value) => (value >= 100 ? value.toFixed(0) : value.toFixed(1).replace(/\.0$/, ""));
const short = (tokens) => (tokens >= 1e6 ? `${round1(tokens / 1e6)}M` : tokens >= 1e3 ? `${round1(tokens / 1e3)}k` : String(Math.round(tokens)));
const scale = (low, high, from, to) => (value) => from + ((value - low) / (high - low || 1)) * (to - from);
function ticks(low, high, count) {
  const raw = (high - low || 1) / Math.max(1, count), power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((value) => value >= raw);
  const values = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-9; value += step) values.push(value);
  return values;
}
// Draws when the width changes. Colours come from the style sheet; only a canvas needs drawing when they change.
function onWidth(node, draw) {
  let width = 0;
  new ResizeObserver(() => {
    if (Math.abs(node.clientWidth - width) < 1) return;
    width = node.clientWidth;
    draw(width);
  }).observe(node);
}

// A table that says what a chart shows, for readers who cannot see it and for those who want the digits.
function tableOf(caption, heads, rows, summary) {
  const cell = (tag, text, at, scope) => h(tag, { class: at && typeof text !== "object" && /^[≥≤≈−$\d–]/.test(String(text)) ? "n" : null, scope }, text);
  return h("details", {}, h("summary", {}, summary || "The same as a table"),
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
      h("table", {}, h("caption", { class: "away" }, caption),
        h("thead", {}, h("tr", {}, heads.map((text, at) => h("th", { scope: "col", class: at && rows.length && /^[≥≤≈−$\d–]/.test(String(rows[0][at])) ? "n" : null }, text)))),
        h("tbody", {}, rows.map((row) => h("tr", {}, row.map((text, at) => (at ? cell("td", text, at) : cell("th", text, at, "row")))))))));
}

// A tile, and the panel that its button opens.
function tile({ id, what, value, then, bound, how }) {
  const panel = h("div", { class: "panel", id: `${id}-how`, role: "region", "aria-label": `How this is computed: ${what}`, hidden: true }, h("p", { class: "small bound" }, bound), how);
  const button = h("button", { type: "button", class: "how", "aria-expanded": "false", "aria-controls": panel.id }, "How", h("span", { class: "rest" }, " this is computed"), h("span", { class: "away" }, `: ${what}`));
  button.addEventListener("click", () => {
    panel.hidden = !panel.hidden;
    button.setAttribute("aria-expanded", String(!panel.hidden));
  });
  return [h("div", { class: "tile", id, role: "group", "aria-label": what }, h("div", { class: "what" }, what), h("div", { class: "value" }, value), then && h("div", { class: "then" }, then), h("div", { class: "bound" }, bound), button), panel];
}

// The glossary's words that a page uses: listed at its foot, where the first of each in its sentences leads.
// The address stays, as it may hold what is looked at, or a key.
function linkWords() {
  const words = Object.keys(WORDS.glossary).sort((one, other) => other.length - one.length);
  const pattern = new RegExp(`\\b(${words.join("|")})(?:e?s)?\\b`, "i"), used = new Map();
  const box = h("details", { id: "words" }, h("summary", {}, "Words on this page"));
  // In sentences of the page itself: a title or a text of the session stays as it is.
  const leads = (node) => node.parentElement.closest(".lead, .what, .bound, .outcome, .note, .reasons, .facts dt") && !node.parentElement.closest("a, button, summary, code, pre, bdi, .tip, .away, [hidden]");
  const walker = document.createTreeWalker(byId("main"), NodeFilter.SHOW_TEXT), nodes = [];
  while (walker.nextNode()) if (leads(walker.currentNode)) nodes.push(walker.currentNode);
  for (let node of nodes) {
    for (let match = pattern.exec(node.data); match; match = pattern.exec(node.data)) {
      const at = node.splitText(match.index), word = match[1].toLowerCase();
      node = at.splitText(match[0].length);
      if (used.has(word)) continue;
      used.set(word, h("dt", { tabindex: -1 }, word));
      const link = h("a", { href: "#words", class: "term" });
      at.replaceWith(link);
      link.append(at);
      link.addEventListener("click", (event) => { event.preventDefault(); box.open = true; used.get(word).focus(); });
    }
  }
  const list = [...used].sort().map(([word, term]) => [term, h("dd", {}, marked(WORDS.glossary[word]))]);
  if (list.length) document.querySelector(".foot").prepend(fill(box, {}, [h("dl", { class: "glossary" }, list)]));
}

// A sum, line by line.
function account(rows, caption) {
  return h("table", {}, h("caption", { class: "away" }, caption), h("tbody", {}, rows.map(([label, value, sum]) => h("tr", { class: sum ? "sum" : null }, h("th", { scope: "row" }, label), h("td", { class: "n" }, value)))));
}

function seg(label, options, chosen, pick) {
  const group = h("div", { class: "seg", role: "group", "aria-label": label });
  const set = (value) => { for (const button of group.children) button.setAttribute("aria-pressed", String(button.dataset.value === value)); };
  for (const [value, text] of options) group.append(h("button", { type: "button", "data-value": value, onclick: () => { set(value); pick(value); } }, text));
  set(chosen);
  return group;
}

// Patterns, so that what colours tell can be told without them. Series are --a to --f; --a has none.
function patterns(id) {
  const pattern = (name, size, ...marks) => svg("pattern", { id: `${id}-${name}`, width: size, height: size, patternUnits: "userSpaceOnUse" }, marks);
  const ground = (name, size) => svg("rect", { width: size, height: size, fill: `var(--${name})` });
  const lines = (d, width) => svg("path", { d, stroke: "var(--surface)", "stroke-width": width });
  return svg("defs", {},
    pattern("b", 6, ground("b", 6), lines("M-1 7L7 -1M-1 1L1 -1M5 7L7 5", 1.6)),
    pattern("c", 5, ground("c", 5), svg("circle", { cx: 2.5, cy: 2.5, r: 1.1, fill: "var(--surface)" })),
    pattern("d", 5, ground("d", 5), lines("M0 2.5H5", 1.4)),
    pattern("e", 5, ground("e", 5), lines("M2.5 0V5", 1.4)),
    pattern("f", 6, ground("f", 6), lines("M-1 -1L7 7M-1 5L1 7M5 -1L7 1", 1.6)),
    pattern("gone", 5, svg("path", { d: "M-1 6L6 -1M-1 1L1 -1M4 6L6 4", stroke: "var(--history-line)", "stroke-width": 1 })));
}
