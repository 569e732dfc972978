"""What Wane changed of the cost of a recorded session, as the proxy tells it of a running one (`wane.savings`)."""

from __future__ import annotations

from wane.core import OWN_TOOLS, Kind, chars
from wane.lab.counting import Material
from wane.lab.recorded_session import ModelCall
from wane.lab.replaying.spent import is_open_ended
from wane.lab.replaying.strategy_replay import Pricing, moment, recorded_cost
from wane.prices import Bill, TokenUsage
from wane.savings import Money, SavingsMeter, own_overhead


def money_of(material: Material, pricing: Pricing) -> Money:
    """Return what a session's calls cost, and what they would have cost with nothing evicted, and without Wane."""
    return sum(money_by_call(material, pricing), Money())


def money_by_call(material: Material, pricing: Pricing) -> list[Money]:
    """Return the same of each call of a session; nothing for a call that counts elsewhere."""
    session, meter, by_call = material.session, SavingsMeter(), list[Money]()
    wanes = _of_own_tools(material)
    evictions = sorted((one for one in session.evictions if not one.client), key=lambda one: one.position)
    own = own_overhead() if any(wanes) else 0
    # As the session counted when it ran: the meter takes the provider's tokens from the reports.
    counts = [part.tokens(chars) for part in session.parts]
    evicted = seen = answered = taken = history = 0
    for call in session.calls:
        for index in range(seen, call.first):
            own += counts[index] if wanes[index] else 0
            history += counts[index]
        seen = call.first
        while taken < len(evictions) and evictions[taken].position <= call.first:
            evicted += sum(counts[index] for index in evictions[taken].removed)
            taken += 1
        # A round that follows nothing but results of Wane's own tools is one that the client would not have made.
        replied = not call.further and (answered == call.first or not all(wanes[answered : call.first]))
        # Output that was not reported is in no cost: a count of its text may be too high.
        cost = recorded_cost(call, 0, pricing) if call.cost is None else call.cost
        prices = pricing.prices_for(call)
        usage, model, at = _usage(call), call.priced_as or "", moment(call)
        reported = call.usage is not None and call.usage.output is not None
        whole = call.cost is not None or (reported and not is_open_ended(call))
        bill = None if cost is None else Bill(cost, whole, call.assumed)
        meter.money = Money()
        meter.add(usage, model, evicted, own=own, history=history, replied=replied, at=at, prices=prices, bill=bill)
        by_call.append(Money() if call.inherited else meter.money)
        answered = call.stop
    return by_call


def _of_own_tools(material: Material) -> list[bool]:
    """Return for each item whether it is a call of one of Wane's own tools, or the result of one."""
    ids = {item.call_id for item in material.items if item.tool in OWN_TOOLS}
    return [item.kind in (Kind.CALL, Kind.RESULT) and item.call_id in ids for item in material.items]


def _usage(call: ModelCall) -> TokenUsage:
    usage = call.usage
    if usage is None:
        return TokenUsage(0, 0)
    return TokenUsage(usage.total_input, usage.output or 0, usage.cache_read, usage.cache_write, usage.cache_write_hour)
