"""What sessions cost, and what they would have cost without eviction."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.proxy.sessions.test_index import SMALL, disk, work, worker
from tests.proxy.world import AnthropicClient, ChatClient, Client
from wane.account import Account
from wane.prices import NO_USAGE, Prices, TokenUsage
from wane.proxy.sessions.figures import SessionCosts
from wane.proxy.sessions.index import SessionIndex
from wane.proxy.sessions.session import Session

MODEL = "claude-sonnet-4-5"


def amounts(costs: SessionCosts) -> tuple[float, float]:
    """Dollars that were spent, and that would have been."""
    return costs.money.account.at_least, costs.money.unmanaged


def test_what_was_evicted_would_have_been_read_from_the_cache() -> None:
    rates = Prices.of(MODEL).tiers[0]
    costs = SessionCosts()
    costs.add(TokenUsage(10_000, 100, 0, 10_000), MODEL, 0)
    first = 10_000 * rates.write + 100 * rates.output
    assert amounts(costs) == pytest.approx((first, first))
    # A pass took 6,000 tokens, so that all but the first 2,000 were written anew.
    costs.add(TokenUsage(5_000, 100, 2_000, 3_000), MODEL, 6_000)
    spent = 2_000 * rates.read + 3_000 * rates.write + 100 * rates.output
    whole = 10_000 * rates.read + 1_000 * rates.write + 100 * rates.output
    assert amounts(costs) == pytest.approx((first + spent, first + whole))


def test_what_is_written_for_an_hour_costs_more_and_would_have_been_so_too() -> None:
    rates = Prices.of(MODEL).tiers[0]
    costs = SessionCosts()
    costs.add(TokenUsage(10_000, 0, 0, 10_000, 10_000), MODEL, 5_000)
    assert amounts(costs) == pytest.approx((10_000 * rates.write_hour, 15_000 * rates.write_hour))


def test_where_the_cache_was_cold_it_would_have_been_so_for_all() -> None:
    rates = Prices.of(MODEL).tiers[0]
    costs = SessionCosts()
    costs.add(TokenUsage(10_000, 0, 0, 10_000), MODEL, 0)
    before = costs.money
    costs.add(TokenUsage(5_000, 0, 0, 5_000), MODEL, 6_000)
    assert costs.money.unmanaged - before.unmanaged == pytest.approx(11_000 * rates.write)


def test_without_a_cache_everything_is_paid_in_full_and_rounds_of_our_own_count_as_spent_alone() -> None:
    rates = Prices.of(MODEL).tiers[0]
    costs = SessionCosts()
    costs.add(TokenUsage(1_000, 10), MODEL, 500)
    costs.add(TokenUsage(1_100, 10), MODEL, 500, replied=False)
    spent = 2_100 * rates.input + 20 * rates.output
    assert amounts(costs) == pytest.approx((spent, 1_500 * rates.input + 10 * rates.output))


@pytest.mark.parametrize(("usage", "model"), [(TokenUsage(1_000, 10), "no-such-model"), (NO_USAGE, MODEL)])
def test_a_request_of_unknown_cost_makes_the_sum_a_bound(usage: TokenUsage, model: str) -> None:
    costs = SessionCosts()
    costs.add(usage, model, 0)
    assert costs.money.to_dict() is None
    costs.add(TokenUsage(1_000, 10), MODEL, 0)
    assert costs.money.account.describe() == "at least $0.00315 (1 of 2 calls)"
    data = costs.money.to_dict()
    assert data is not None
    assert (data["calls"], data["priced_calls"]) == (2, 1)


@pytest.mark.parametrize("make", [AnthropicClient, ChatClient], ids=lambda client: client.__name__)
async def test_a_session_costs_the_same_after_a_restart(make: type[Client], tmp_path: Path) -> None:
    client = make()
    model = worker(client, 3)
    index = SessionIndex(disk(tmp_path), SMALL)
    await work(index, client, model, 5)
    (before,) = index.status()
    await index.close()
    assert before.money.unmanaged > before.money.account.at_least > 0
    rates = Prices.of(before.facts.model).tiers[0]
    spent = before.used.input * rates.input + before.used.output * rates.output
    assert before.money.account.at_least == pytest.approx(spent)
    assert any(view.evicted for view in before.views)
    index = SessionIndex(disk(tmp_path), SMALL)
    client.say("One more.")
    await index.turn(client.wire, client.body())
    (after,) = index.status()
    assert after.money == before.money
    await index.close()


def test_a_request_that_another_one_overtook_is_paid_for_and_recorded() -> None:
    wire = AnthropicClient().wire
    session = Session(wire, SMALL, "00", infer=False)
    records = [*session.paid(TokenUsage(1_000, 10), MODEL), *session.paid(NO_USAGE, MODEL)]
    assert session.costs.money.account.describe() == "at least $0.00315 (1 of 2 calls)"
    assert Account.of(records) == session.costs.money.account
    again = session.blank()
    again.follow(records)
    assert (again.costs.money, again.used) == (session.costs.money, session.used)
