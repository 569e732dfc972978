"""What sessions cost, and what they would have cost without eviction."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.proxy.sessions.test_index import SMALL, disk, work, worker
from tests.proxy.world import AnthropicClient, ChatClient, Client, begin
from wane.account import Account
from wane.conversation.context import ContextSettings
from wane.journal import UsageRecord
from wane.money import dollars
from wane.prices import NO_USAGE, Bill, CacheUse, Prices, TokenUsage, assumed_prices
from wane.proxy.sessions.managed_session import Session
from wane.proxy.sessions.session_index import SessionIndex
from wane.proxy.wire.anthropic.anthropic_wire import AnthropicWire
from wane.proxy.wire.wire import Round
from wane.savings import CostChange, Money, SavingsMeter, described_effect

MODEL = "claude-sonnet-4-5"


def amounts(costs: SavingsMeter) -> tuple[float, float]:
    """Dollars that were spent, and that would have been."""
    return costs.money.account.at_least, costs.money.unmanaged


def test_what_was_evicted_would_have_been_read_from_the_cache() -> None:
    rates = Prices.of(MODEL).tiers[0]
    costs = SavingsMeter()
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
    costs = SavingsMeter()
    costs.add(TokenUsage(10_000, 0, 0, 10_000, 10_000), MODEL, 5_000)
    assert amounts(costs) == pytest.approx((10_000 * rates.write_hour, 15_000 * rates.write_hour))


def test_where_the_cache_was_cold_it_would_have_been_so_for_all() -> None:
    rates = Prices.of(MODEL).tiers[0]
    costs = SavingsMeter()
    costs.add(TokenUsage(10_000, 0, 0, 10_000), MODEL, 0)
    before = costs.money
    costs.add(TokenUsage(5_000, 0, 0, 5_000), MODEL, 6_000)
    assert costs.money.unmanaged - before.unmanaged == pytest.approx(11_000 * rates.write)


def test_without_a_cache_everything_is_paid_in_full_and_rounds_of_our_own_count_as_spent_alone() -> None:
    rates = Prices.of(MODEL).tiers[0]
    costs = SavingsMeter()
    costs.add(TokenUsage(1_000, 10), MODEL, 500)
    costs.add(TokenUsage(1_100, 10), MODEL, 500, replied=False)
    spent = 2_100 * rates.input + 20 * rates.output
    assert amounts(costs) == pytest.approx((spent, 1_500 * rates.input + 10 * rates.output))


def test_where_nothing_was_evicted_eviction_saved_nothing() -> None:
    """A cache that broke for other reasons broke without Wane, too; "added by eviction $2.21" stood here."""
    costs = SavingsMeter()
    for usage in (
        TokenUsage(10_000, 50, 0, 10_000),
        TokenUsage(12_000, 50, 0, 12_000),
        TokenUsage(13_000, 50, 11_900, 1_100),
    ):
        costs.add(usage, MODEL, 0)
    money = costs.money
    assert money.account.at_least == money.unevicted == money.unmanaged
    assert described_effect(money) == ""


def test_marks_and_eviction_stand_apart_and_add_up() -> None:
    rates = Prices.of(MODEL).tiers[0]
    costs = SavingsMeter()
    costs.add(TokenUsage(10_000, 0, 0, 10_000), MODEL, 0, own=1_000)
    # A round that follows a mark alone: the client would not have made it.
    costs.add(TokenUsage(10_200, 0, 10_000, 200), MODEL, 0, own=1_200, replied=False)
    costs.add(TokenUsage(11_200, 0, 10_200, 1_000), MODEL, 0, own=1_200)
    money = costs.money
    assert money.eviction_saved == pytest.approx(0)
    first, round_, last = 1_000 * rates.write, 10_000 * rates.read + 200 * rates.write, 1_200 * rates.read
    assert money.marks_cost == pytest.approx(first + round_ + last)
    assert money.saved == pytest.approx(money.eviction_saved - money.marks_cost)
    costs.add(TokenUsage(5_000, 0, 2_000, 3_000), MODEL, 7_000, own=1_200)
    money = costs.money
    assert money.eviction_saved == pytest.approx(
        11_200 * rates.read + 800 * rates.write - 2_000 * rates.read - 3_000 * rates.write
    )
    assert money.saved == pytest.approx(money.eviction_saved - money.marks_cost)


def test_a_miss_without_a_pass_would_have_come_without_wane_as_well() -> None:
    rates = Prices.of(MODEL).tiers[0]
    costs = SavingsMeter()
    costs.add(TokenUsage(5_000, 0, 1_000, 4_000), MODEL, 7_000)
    before = costs.money
    costs.add(TokenUsage(5_100, 0, 1_000, 4_100), MODEL, 7_000)
    assert costs.money.unevicted - before.unevicted == pytest.approx(8_000 * rates.read + 4_100 * rates.write)


def test_what_wane_changed_in_words_adds_up() -> None:
    money = Money(Account().plus(TokenUsage(1, 1), 10.0), unevicted=10.0, unmanaged=7.79)
    assert described_effect(money).endswith(
        "marks cost $2.21, eviction saved $0.00, in all $2.21 more than without Wane"
    )


def test_the_figures_of_an_effect_are_those_of_other_commands_and_add_up_as_written() -> None:
    money = Money(Account().plus(TokenUsage(1, 1), 0.4809), unevicted=0.7795, unmanaged=0.6646)
    effect = CostChange.of(money)
    assert (effect.spent, effect.without) == (dollars(0.4809), dollars(0.6646))
    assert (effect.marks, effect.saved, effect.net) == ("$0.115", "$0.299", "$0.184 less")
    dear = CostChange.of(Money(Account().plus(TokenUsage(1, 1), 12_345.4), unevicted=12_400.0, unmanaged=0.9))
    assert (dear.spent, dear.without, dear.net) == ("$12,345", "$0.90", "$12,344.10 more")
    same = CostChange.of(Money(Account().plus(TokenUsage(1, 1), 2.0), unevicted=2.0, unmanaged=2.0))
    assert (same.marks, same.saved, same.net) == ("$0.00", "$0.00", "the same")


AMOUNTS = st.floats(0, 20_000) | st.floats(0, 1) | st.floats(0, 0.001)


def test_what_a_sum_leaves_by_rounding_is_nothing() -> None:
    assert dollars(0.1 + 0.2 - 0.3) == dollars(0.3 - 0.2 - 0.1) == "$0.00"
    assert dollars(2e-9) == "$2.0e-09"


@given(spent=AMOUNTS, unevicted=AMOUNTS, unmanaged=AMOUNTS)
def test_the_figures_of_any_effect_add_up_as_written(spent: float, unevicted: float, unmanaged: float) -> None:
    effect = CostChange.of(Money(Account().plus(TokenUsage(1, 1), spent), unevicted, unmanaged))
    written = [effect.spent, effect.without, effect.saved, effect.marks, effect.net.partition(" ")[0]]
    paid, without, saved, marks, net = (
        Decimal(text.replace("$", "").replace(",", "").replace("the", "0")) for text in written
    )
    assert saved - marks == without - paid
    assert (net if effect.net.endswith("less") else -net) == without - paid


@pytest.mark.parametrize(("usage", "model"), [(TokenUsage(1_000, 10), "no-such-model"), (NO_USAGE, MODEL)])
def test_a_request_of_unknown_cost_makes_the_sum_a_bound(usage: TokenUsage, model: str) -> None:
    costs = SavingsMeter()
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
    assert before.money.unevicted > before.money.account.at_least > 0
    rates = Prices.of(before.facts.model).tiers[0]
    spent = before.used.input * rates.input + before.used.output * rates.output
    assert before.money.account.at_least == pytest.approx(spent)
    assert any(view.evicted for view in before.views)
    index = SessionIndex(disk(tmp_path), SMALL)
    client.say("One more.")
    await begin(index, client.wire, client.body())
    (after,) = index.status()
    assert after.money == before.money
    await index.close()


def test_a_request_that_another_one_overtook_is_paid_for_and_recorded() -> None:
    wire = AnthropicClient().wire
    session = Session(wire, SMALL, "00", infer=False)
    records = [*session.pay_late(TokenUsage(1_000, 10), MODEL), *session.pay_late(NO_USAGE, MODEL)]
    assert session.costs.money.account.describe() == "at least $0.00315 (1 of 2 calls)"
    assert Account.of(records) == session.costs.money.account
    again = session.blank()
    again.follow(records)
    assert (again.costs.money, again.used) == (session.costs.money, session.used)


def test_a_round_is_priced_once() -> None:
    """All who count its cost take the same bill, also when the price changes between them, as it does by the hour."""
    priced = Round({"role": "assistant", "content": "Done."}, usage=TokenUsage(input=1_000, output=10)).with_bill(MODEL)
    assert priced.bill is not None
    assert priced.bill.complete
    assert priced.with_bill("another model").bill is priced.bill
    session = Session(AnthropicWire(), ContextSettings(), "0" * 24, infer=False)
    dearer = Bill(2 * priced.bill.at_least, complete=True)
    assert priced.usage is not None
    (*_, record) = session.observe(priced.usage, MODEL, dearer)
    assert isinstance(record, UsageRecord)
    assert record.cost == session.costs.money.account.at_least == dearer.at_least
    assert Round({}).with_bill(MODEL).bill is None


def test_whose_prices_stand_in_is_told_of_all_calls_and_not_of_the_last_one() -> None:
    costs = SavingsMeter()
    with assumed_prices("openai:gpt-5.2"):
        costs.add(TokenUsage(1_000, 10), "nobody-lists-this", 0)
        costs.add(TokenUsage(1_000, 10), MODEL, 0)
    account = costs.money.account
    assert account.assumption == "at the prices of openai:gpt-5.2"
    assert account.describe("spent") == f"{dollars(account.at_least)} spent, 1 of its calls {account.assumption}"
    assert list(costs.unlisted) == ["nobody-lists-this"]
    since = costs.money
    costs.add(TokenUsage(1_000, 10), MODEL, 0)
    later = costs.money.minus(since)
    assert later.account.assumption == "", "of the requests since then"
    assert (later + since).account.assumed == {"openai:gpt-5.2": 1}


def test_a_session_that_is_read_again_costs_what_it_cost() -> None:
    """Its calls are not priced anew: prices may have been assumed, and some depend on the hour."""
    session = Session(AnthropicWire(), SMALL, "00", infer=False)
    with assumed_prices("openai:gpt-5.2"):
        records = session.observe(TokenUsage(10_000, 100), "nobody-lists-this")
        records += session.pay_late(TokenUsage(20_000, 100), "nobody-lists-this")
    again = session.blank()
    again.follow(records)
    assert again.costs.money.account == session.costs.money.account
    assert again.costs.money.account.assumption == "at the prices of openai:gpt-5.2"
    assert again.costs.money == again.costs.followed


def test_a_rebate_counts_for_what_would_have_been_sent_too() -> None:
    usage = TokenUsage(10_000, 100, 0, 10_000)
    listed = Prices.of(MODEL).cost(usage.use, usage.output).total
    costs = SavingsMeter()
    costs.add(replace(usage, charged=0.5 * listed), MODEL, 0, own=1_000)
    assert costs.money.account.at_least == costs.money.unevicted == pytest.approx(0.5 * listed)
    plain = Prices.of(MODEL).cost(CacheUse(0, 9_000, 0), 100).total
    assert costs.money.unmanaged == pytest.approx(0.5 * plain)


def test_a_round_is_priced_by_where_it_was_served() -> None:
    usage = TokenUsage(1_000, 10)
    usual, regional = (
        Round({}, usage=usage).with_bill("gpt-5.5", host) for host in ("api.openai.com", "eu.api.openai.com")
    )
    assert usual.bill is not None
    assert regional.bill is not None
    assert regional.bill.at_least == pytest.approx(1.1 * usual.bill.at_least)
    assert regional.usage == replace(usage, tier="regional")


def test_of_a_cost_that_is_known_in_part_that_part_is_compared() -> None:
    usage = TokenUsage(10_000, 100, 0, 10_000)
    whole, part = SavingsMeter(), SavingsMeter()
    for tokens, evicted in ((usage, 0), (replace(usage, cache_read=2_000, cache_write=3_000), 6_000)):
        whole.add(tokens, MODEL, evicted, own=500)
        part.add(replace(tokens, further_fees=True), MODEL, evicted, own=500)
    assert part.money.account.complete is False
    assert part.money.eviction_saved == pytest.approx(whole.money.eviction_saved)
    assert part.money.marks_cost == pytest.approx(whole.money.marks_cost)
    assert part.money.to_dict() is not None
