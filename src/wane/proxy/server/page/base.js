// Helpers: elements and numbers.

const byId = (id) => document.getElementById(id);

// Contents go in as text nodes and attributes alone, never as markup.
function h(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    node.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat(2)) {
    if (child !== null && child !== undefined && child !== false) node.append(child);
  }
  return node;
}

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const n0 = (value) => whole.format(value);
const many = (count, noun) => `${n0(count)} ${noun}${count === 1 ? "" : "s"}`;
const trim = (value) => (value >= 100 ? value.toFixed(0) : value.toFixed(1).replace(/\.0$/, ""));

function short(tokens) {
  if (tokens >= 1e6) return `${trim(tokens / 1e6)}M`;
  return tokens >= 1e3 ? `${trim(tokens / 1e3)}k` : String(Math.round(tokens));
}

function dollars(amount) {
  return `$${amount.toFixed(Math.abs(amount) >= 0.1 || amount === 0 ? 2 : 4)}`;
}

// What was spent; a bound if the cost of some calls is not known.
function spent(money) {
  const known = money.priced_calls === money.calls;
  return known ? dollars(money.spent) : `at least ${dollars(money.spent)} (${n0(money.priced_calls)} of ${n0(money.calls)} calls)`;
}

// What Wane changed of a cost, as an estimate: marks cost, eviction saved, and both. Cents are rounded first, so that they add up.
function effect(money) {
  const marks = Math.round(100 * (money.unevicted - money.unmanaged)) / 100, saved = Math.round(100 * (money.unevicted - money.spent)) / 100;
  return { marks, saved, net: saved - marks };
}
const cents = (amount) => `${amount < -0.004 ? "−" : ""}$${Math.abs(amount).toFixed(2)}`;

function span(seconds) {
  if (seconds < 60) return `${Math.max(0, Math.floor(seconds))} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

const between = (from, to) => (Date.parse(to) - Date.parse(from)) / 1000;
