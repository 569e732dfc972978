// Dollars and times of sessions, as the cards and the tiles add them up.

// Small amounts with more digits than cents have.
const dollars = (amount) => (amount !== 0 && Math.abs(amount) < 0.1 ? `$${amount.toFixed(4)}` : usd(amount));

// What was spent; a bound if the cost of some calls is not known.
function spent(money) {
  if (!money) return "not known";
  return `${money.priced_calls === money.calls ? "" : "≥"}${usd(money.spent)}`;
}

const cent = (amount) => Math.round(100 * amount) / 100;

// What Wane changed of a cost, as an estimate: marks cost, eviction saved, and both. Cents are rounded first, so that they add up.
function effect(money) {
  const spent = cent(money.spent), without = cent(money.unmanaged), saved = cent(money.unevicted - money.spent), net = cent(without - spent);
  return { spent, marks: cent(saved - net), saved, net, without };
}

// The same of several sessions: the sum of what stands on their cards.
function effectOf(sessions) {
  const sum = { spent: 0, marks: 0, saved: 0, net: 0 };
  for (const session of sessions) {
    if (!session.money) continue;
    const own = effect(session.money);
    for (const name of Object.keys(sum)) sum[name] = cent(sum[name] + own[name]);
  }
  return sum;
}
const netText = (net) => (net > 0 ? `${usd(net)} saved` : net < 0 ? `${usd(-net)} added` : "$0.00");

function span(seconds) {
  if (seconds < 60) return `${Math.max(0, Math.floor(seconds))} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

const between = (from, to) => (Date.parse(to) - Date.parse(from)) / 1000;
const times = (count) => ["never", "once", "twice"][count] || `${n0(count)} times`;
