// What the pages of sessions share: units, the looks of strategies, sections.

const data = JSON.parse(document.getElementById("data").textContent);
const main = document.getElementById("main");

const digits = (count) => new Intl.NumberFormat("en-US", { minimumFractionDigits: count, maximumFractionDigits: count });
const mills = digits(3);

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
  if (name === "recorded" && isManaged()) return { stroke: "var(--s-cwl)", dash: "" };
  const akin = AKIN[name] || (OWN.includes(name) ? name : "none");
  const dash = PEERS.includes(name) ? DASHES[1 + (PEERS.indexOf(name) % 3)] : VARIANTS[name] ? DASHES[1 + (Object.keys(VARIANTS).indexOf(name) % 3)] : name === "none" ? DASHES[2] : "";
  return { stroke: `var(--s-${akin})`, dash };
}

function section(id, title, lead, ...beside) {
  const body = h("section", { id, class: "card", "aria-labelledby": `${id}-title` }, h("div", { class: "cardhead" }, h("h2", { id: `${id}-title` }, title), beside, lead && h("p", { class: "lead" }, lead)));
  main.append(body);
  byId("nav").append(h("a", { href: `#${id}` }, title.split(",")[0]));
  return body;
}
