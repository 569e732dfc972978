// Helpers: elements, numbers, colours, and what the parts of the page share.

const data = JSON.parse(document.getElementById("data").textContent);
const main = document.getElementById("main");
const SVG = "http://www.w3.org/2000/svg";

// Contents go in as text nodes and attributes alone, never as markup.
function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat(3)) {
    if (child !== null && child !== undefined && child !== false) node.append(child);
  }
  return node;
}
const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const digits = (count) => new Intl.NumberFormat("en-US", { minimumFractionDigits: count, maximumFractionDigits: count });
const cents = digits(2), mills = digits(3);
const n0 = (value) => whole.format(value);
const many = (count, noun) => `${n0(count)} ${noun}${count === 1 ? "" : "s"}`;
const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

function short(tokens) {
  if (tokens >= 1e6) return `${trim(tokens / 1e6)}M`;
  return tokens >= 1e3 ? `${trim(tokens / 1e3)}k` : String(Math.round(tokens));
}
const trim = (value) => (value >= 100 ? value.toFixed(0) : value.toFixed(1).replace(/\.0$/, ""));

function percent(share) {
  const value = 100 * share;
  // What is not all is not shown as all.
  return `${(value < 100 && value > 99.9 ? 99.9 : value).toFixed(1)}%`;
}

const UNITS = {
  usd: (value) => `$${(value !== 0 && value < 0.1 ? mills : cents).format(value)}`,
  ratio: (value) => value.toFixed(2),
  tokens: n0,
  share: percent,
  count: n0,
  decimal: (value) => value.toFixed(1),
  ms: (value) => value.toFixed(2),
};
const written = (value, unit) => (value === null || value === undefined ? "–" : UNITS[unit](value));

const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

const DASHES = ["", "7 3", "2 2.5", "9 3 2 3"];
const OWN = ["none", "truncate", "compact", "clear-tools", "fold", "paper", "cwl", "recorded"];
// Peers share the colours of ours, and differ in how the line is broken.
const PEERS = ["langchain-trim", "langchain-edit", "harness-window", "harness-clear", "openai-agents-trim", "strands-window", "ctxkernel"];
const AKIN = { "langchain-trim": "truncate", "langchain-edit": "clear-tools", "harness-window": "truncate" };
AKIN["harness-clear"] = "clear-tools";
AKIN["openai-agents-trim"] = "fold";
AKIN["strands-window"] = "truncate";
AKIN.ctxkernel = "clear-tools";
// So do the strategies that are akin to another of ours.
const VARIANTS = { streaming: "truncate", mask: "clear-tools", memgpt: "compact", resum: "compact", acon: "compact" };
Object.assign(AKIN, VARIANTS);

function look(name) {
  const akin = AKIN[name] || (OWN.includes(name) ? name : "none");
  const dash = PEERS.includes(name) ? DASHES[1 + (PEERS.indexOf(name) % 3)] : VARIANTS[name] ? DASHES[1 + (Object.keys(VARIANTS).indexOf(name) % 3)] : name === "none" ? DASHES[2] : "";
  return { stroke: `var(--s-${akin})`, dash };
}

function section(id, title, lead) {
  const body = h("section", { id, "aria-labelledby": `${id}-title` }, h("h2", { id: `${id}-title` }, title));
  if (lead) body.append(h("p", { class: "lead" }, lead));
  main.append(body);
  document.getElementById("nav").append(h("a", { href: `#${id}` }, title));
  return body;
}

// Draw again when the width or the colours change.
function onResize(node, draw) {
  let width = 0;
  new ResizeObserver(() => {
    if (Math.abs(node.clientWidth - width) < 1) return;
    width = node.clientWidth;
    draw();
  }).observe(node);
}
const repaints = [];
const onColours = (draw) => repaints.push(draw);
const repaint = () => repaints.forEach((draw) => draw());
prefersDark.addEventListener("change", repaint);

function segmented(label, options, chosen, pick) {
  const group = h("div", { class: "segmented", role: "group", "aria-label": label });
  const set = (value) => {
    for (const button of group.children) button.setAttribute("aria-pressed", String(button.dataset.value === value));
  };
  for (const [value, text] of options) {
    const choose = () => { set(value); pick(value); };
    group.append(h("button", { type: "button", "data-value": value, onclick: choose }, text));
  }
  set(chosen);
  return group;
}
