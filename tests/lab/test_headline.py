"""The headline of a viewed session: true to the figures, whatever they are."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.lab.readers.promises import SESSIONS, needs_sessions
from tests.lab.tales import AUTOMATIC, WRITTEN, Tale, working
from wane.lab.counting import Material
from wane.lab.loss import Reread
from wane.lab.readers import Recording, gather
from wane.lab.recorded_session import CallUsage, Compaction, ModelCall, RecordedEviction
from wane.lab.replaying.compare import compare
from wane.lab.replaying.jobs import InProcess, Job
from wane.lab.replaying.managed import money_of
from wane.lab.replaying.replay_figures import Totals
from wane.lab.replaying.spent import Recorded, account_of
from wane.lab.replaying.strategy_replay import Pricing, comparable_costs
from wane.lab.replaying.studying import Studied, study
from wane.lab.replaying.verdict import WITHOUT_WANE, Baseline, Baselines, savings, verdict
from wane.lab.report.headline import facts_of, headline_of
from wane.lab.report.simulating import Simulated
from wane.money import dollars, share
from wane.prices import CacheUse, Cost, Prices
from wane.strategies.strategy import StrategySettings


@pytest.fixture
def studied() -> Studied:
    return working(40, 100).study_session()


def simulate_session(studied: Studied, budget: int, strategy: str = "cwl", pricing: Pricing = AUTOMATIC) -> Simulated:
    settings = StrategySettings(budget=budget, annotate=studied.annotate)
    replay, baseline = (Job(0, name, settings, pricing).run(studied.subject) for name in (strategy, "none"))
    return Simulated(replay, baseline, pricing)


def with_usage(material: Material, usage: CallUsage, unreported: int = 0) -> Material:
    """The session with one usage at every call, without any at the first `unreported` of them."""
    calls = [replace(call, usage=usage) for call in material.session.calls]
    calls[:unreported] = [replace(call, usage=None) for call in calls[:unreported]]
    return replace(material, session=replace(material.session, calls=calls))


def beside(other: Simulated, material: Material) -> Simulated:
    """The replays of a session as they are for one with another recorded usage, whose tokens count the same."""
    costs = comparable_costs(material, other.pricing)
    changed = []
    for replayed in (other.replay, other.baseline):
        covered = [call.cost + call.again for call, cost in zip(replayed.calls, costs, strict=True) if cost is not None]
        totals = replace(replayed.totals, beside=sum(covered), beside_calls=len(covered))
        changed.append(replace(replayed, totals=totals))
    return replace(other, replay=changed[0], baseline=changed[1])


def dearer(totals: Totals) -> Totals:
    """The totals of never evicting, if that had cost far more than what was recorded."""
    return replace(totals, cost=Cost(fresh=1e6), beside=1e6)


def test_without_recorded_usage_it_says_that_both_sides_are_simulated(studied: Studied) -> None:
    other = simulate_session(studied, 1_500)
    before, after = other.baseline.totals.dollars, other.replay.totals.full_cost
    headline = headline_of(studied.subject.material, other)
    assert headline.text.startswith(
        f"{dollars(before)} if nothing is evicted, simulated → {dollars(after)} with Wane at 1,500 tokens, simulated: "
        f"{share(1 - after / before)} less. "
    )
    assert headline.detail.startswith("The recorded cost is not known; ")


def test_it_says_how_much_stayed_in_view_and_what_fetching_the_rest_costs(studied: Studied) -> None:
    other = simulate_session(studied, 1_500)
    totals = replace(other.replay.totals, reread_cost=1_000.0)
    loss = replace(totals.loss, uses=10, in_view=7, in_view_at_best=7, reread=Reread(3, 100))
    totals = replace(totals, loss=loss)
    fetching = replace(other, replay=replace(other.replay, totals=totals))
    text = headline_of(studied.subject.material, fetching).text
    assert f" {dollars(totals.dollars + 1_000)} with Wane at 1,500 tokens" in text
    assert text.endswith(" 70% of what later calls used was still in view; fetching again is $1,000.00 of the cost.")
    detail = headline_of(studied.subject.material, fetching).detail
    assert "Calls used 10 earlier names, 3 of them not in view, for 3 fetches." in detail


def test_a_lost_turn_is_not_passed_over(studied: Studied) -> None:
    other = simulate_session(studied, 1_500, "truncate")
    loss = other.replay.totals.loss
    detail = headline_of(studied.subject.material, other).detail
    assert f"{loss.user_turns_lost} of the user's {loss.user_turns} turns left the view." in detail
    whole = headline_of(studied.subject.material, simulate_session(studied, 1_500)).detail
    assert f"Every view held all of the user's turns so far ({loss.user_turns})." in whole
    silent = Tale().system(20).calls("a", 10).result("a", 3_000).says(5).calls("b", 9).result("b", 3_000).says(5)
    text = headline_of(silent.study_session().subject.material, simulate_session(silent.study_session(), 3_500)).detail
    assert "turns" not in text  # nobody said anything


def test_a_call_without_usage_is_on_neither_side(studied: Studied) -> None:
    other = simulate_session(studied, 1_500)
    calls = len(studied.subject.material.session.calls)
    dear = CallUsage(int(1.5 * other.replay.totals.full_cost / calls), 1, 0, 0)
    known = with_usage(studied.subject.material, dear, unreported=1)
    other = beside(other, known)
    cost, after = account_of(known.session, known.output_tokens, AUTOMATIC).at_least, other.replay.totals.beside
    assert after < cost < other.baseline.totals.beside
    assert after == pytest.approx(sum(call.cost + call.again for call in other.replay.calls[1:]))
    text = headline_of(known, other).text
    assert text.startswith(f"Over {share((calls - 1) / calls)} of the calls: {dollars(cost)} as recorded → ")
    assert f"{share(1 - after / cost)} less" in text
    assert "at least" not in text.partition(". ")[0], "both sides are the same calls"
    assert f"At least {dollars(cost)} as recorded ({calls - 1} of {calls} calls" in headline_of(known, other).detail


def test_a_recording_without_a_cache_is_not_set_beside_a_simulation_with_one(studied: Studied) -> None:
    known = with_usage(studied.subject.material, CallUsage(10_000, 0, 0, 1))
    other = beside(simulate_session(studied, 1_500), known)
    headline = headline_of(known, other)
    assert account_of(known.session, known.output_tokens, AUTOMATIC).complete
    assert headline.text.startswith(f"{dollars(other.baseline.totals.dollars)} if nothing is evicted, simulated → ")


def test_cache_misses_that_no_strategy_causes_make_the_saving_a_range(studied: Studied) -> None:
    """The recording lost its cache once, without a compaction: with Wane that may have happened, too."""
    material = with_usage(studied.subject.material, CallUsage(10, 90_000, 0, 0))
    calls = list(material.session.calls)
    calls[40] = replace(calls[40], usage=CallUsage(90_010, 0, 0, 0))
    lost = replace(material, session=replace(material.session, calls=calls))
    other = beside(simulate_session(studied, 1_500), lost)
    baselines = Baselines.of(lost, AUTOMATIC, other.baseline)
    prices = AUTOMATIC.prices
    assert baselines.missed == pytest.approx(prices.repeated_cost(89_984, CacheUse(0, 0, 90_010), None), rel=0.01)
    before = Baseline(10 * baselines.missed, "as recorded", missed=baselines.missed, recorded=True)
    totals = replace(other.replay.totals, beside=6 * baselines.missed)
    assert before.saving(totals) == (pytest.approx(0.3), pytest.approx(0.4))
    assert savings(*before.saving(totals)) == "30% to 40% less"
    assert savings(*before.saving(totals), bound=True) == "at least 30% less"
    assert savings(-0.02, 0.26) == "from 2% more to 26% less"
    compacted = replace(lost.session, compactions=[Compaction(calls[40].first, "all", calls[40].first)])
    assert Baselines.of(replace(lost, session=compacted), AUTOMATIC, other.baseline).missed == 0, "a strategy's own"


MADE = ModelCall(0, 0)


@pytest.mark.parametrize(
    ("left", "words"),
    [
        ({"abandoned": [MADE] * 2}, "2 calls on abandoned branches"),
        ({"unread": 1}, "what 1 unreadable record held"),
        ({"abandoned": [MADE], "unread": 6}, "1 call on abandoned branches and what 6 unreadable records held"),
    ],
)
def test_calls_that_were_left_out_make_the_recorded_cost_a_bound(
    studied: Studied, left: dict[str, Any], words: str
) -> None:
    other = simulate_session(studied, 1_500)
    after, unevicted = other.replay.totals.full_cost, other.baseline.totals.dollars
    calls = len(studied.recording.session.calls)
    whole = with_usage(studied.subject.material, CallUsage(int(1.2 * after / calls), 1, output=0))
    known = replace(whole, session=replace(whole.session, **left))
    other = beside(other, known)
    cost = account_of(known.session, known.output_tokens, AUTOMATIC).at_least
    headline = headline_of(known, other)
    assert headline.text.startswith(f"{dollars(cost)} as recorded → {dollars(after)} with Wane at 1,500 tokens, "), (
        "what was left out is on neither side"
    )
    assert f"simulated: {share(1 - after / cost)} less. " in headline.text
    assert headline.detail.startswith(f"At least {dollars(cost)} as recorded (without {words}); ")
    simulation = f"{dollars(unevicted)} if nothing is evicted, simulated without these either. "
    assert f"as recorded (without {words}); " in headline.detail
    assert simulation in headline.detail
    assert ("Left out", words) in facts_of(known)
    row = Recorded.of(known, AUTOMATIC, 1_500)
    assert (row.complete, row.bounded) == (False, ["cost_usd", "total_usd"]), "the ratio is over the same calls"
    data = row.to_dict(other.baseline.totals)
    assert (data["cost_usd"], data["cost_at_least_usd"]) == (None, pytest.approx(cost))
    silent = replace(studied.subject.material, session=replace(studied.recording.session, **left))
    assert f"The recorded cost is not known (without {words}); " in headline_of(silent, other).detail


class TestUnknownPrices:
    """One rule: what was recorded is priced by its own models alone, and a simulation says whose prices it takes."""

    def study_models(self, models: list[str | None], usage: CallUsage) -> Studied:
        session = working(40, 100).session
        calls = [
            replace(call, usage=usage, model=models[number % len(models)]) for number, call in enumerate(session.calls)
        ]
        found = Recording(replace(session, calls=calls), "")
        (studied,) = study([found], Pricing.of("anthropic:claude-sonnet-4-5"), own_prices=True)
        return studied

    def test_of_all_calls_leave_the_recorded_cost_unknown(self) -> None:
        studied = self.study_models(["nobody-knows-it"], CallUsage(100_000, output=10))
        calls = len(studied.recording.session.calls)
        recorded = Recorded.of(studied.subject.material, studied.pricing, 1_500)
        assert (recorded.complete, recorded.account.priced) == (False, 0)
        headline = headline_of(studied.subject.material, simulate_session(studied, 1_500, pricing=studied.pricing))
        assert "as recorded" not in headline.text
        why = f"no prices are known for the {calls} calls of nobody-knows-it"
        assert headline.detail.startswith(f"The recorded cost is not known ({why}); ")
        whose = "anthropic:claude-sonnet-4-5"
        assert f" By prices of {whose}; {why}, so those of {whose} are used. " in headline.detail

    @pytest.mark.parametrize(
        ("other", "words"),
        [
            ("nobody-knows-it", "no prices are known for the {} of nobody-knows-it"),
            (None, "no prices are known for {} without a recorded model"),
        ],
    )
    def test_of_some_calls_make_it_a_bound_that_is_not_compared(self, other: str | None, words: str) -> None:
        known = "claude-opus-4-5"
        studied = self.study_models([known, "claude-haiku-4-5", known, other], CallUsage(100_000, output=10))
        material, pricing = studied.subject.material, studied.pricing
        calls = len(material.session.calls)
        priced = calls - len(material.session.calls[3::4])
        replays = simulate_session(studied, 1_500, pricing=pricing)
        headline = headline_of(material, replays)
        assert f"{dollars(replays.baseline.totals.dollars)} if nothing is evicted, simulated → " in headline.text
        why = words.format(f"{calls - priced} calls")
        assert f" as recorded ({priced} of {calls} calls, {why}); " in headline.detail
        haiku = len(material.session.calls[1::4])
        whose = f"anthropic:claude-opus-4-5 ({calls - haiku} calls), anthropic:claude-haiku-4-5 ({haiku} calls)"
        assert f" By prices of {whose}; {why}, so those of anthropic:claude-opus-4-5 are used. " in headline.detail
        lowest = Baselines.of(material, pricing, replays.baseline).lowest()
        assert lowest is not None
        assert lowest.label == "if nothing is evicted, simulated"
        data = Recorded.of(material, pricing, 1_500).to_dict(replays.baseline.totals)
        assert (data["complete"], data["unpriced_models"]) == (False, {other or "": calls - priced})


def test_a_call_without_a_time_costs_at_least_the_lowest_price_of_its_model(studied: Studied) -> None:
    usage = CallUsage(100_000, output=1_000)
    material = with_usage(studied.subject.material, usage)
    calls = len(material.session.calls)
    pricing = replace(AUTOMATIC, models=None, prices=Prices.of("deepseek:deepseek-chat"))
    day, night = (datetime(2026, 1, 1, hour, tzinfo=UTC) for hour in (12, 20))
    use = CacheUse(0, 0, 100_000)
    dear, cheap = (pricing.prices.cost(use, 1_000, at=at).total for at in (day, night))
    assert cheap < dear
    dated = replace(material.session, calls=[replace(call, at=day.timestamp()) for call in material.session.calls])
    known = Recorded.of(replace(material, session=dated), pricing, 1_500)
    assert (known.complete, known.account.at_least) == (True, pytest.approx(calls * dear))
    undated = replace(material.session, calls=[replace(call, at=None) for call in material.session.calls])
    bound = Recorded.of(replace(material, session=undated), pricing, 1_500)
    assert (bound.complete, bound.account.at_least) == (False, pytest.approx(calls * cheap))
    assert f"{calls} calls without a time at the lowest price of the model" in bound.bounds
    stable = replace(pricing, prices=Prices.of("anthropic:claude-sonnet-4-5"))
    assert Recorded.of(replace(material, session=undated), stable, 1_500).complete


def test_where_nothing_is_saved_it_says_so(studied: Studied) -> None:
    cheap = with_usage(studied.subject.material, CallUsage(1, 1, 0, 1))
    other = beside(simulate_session(studied, 1_500), cheap)
    headline = headline_of(cheap, other)
    assert headline.text.startswith("No saving here: $")
    assert " as recorded; " in headline.detail
    cheap.session.compactions.append(Compaction(5, "all", 5))
    bound = headline_of(cheap, other)
    assert " as recorded (without the calls that wrote a summary); " in bound.detail
    assert bound.text.startswith("No saving can be shown: at least $")
    cheap.session.asides.append(ModelCall(5, 5, CallUsage(1, 0, 0, 1)))
    assert headline_of(cheap, other).text.startswith("No saving here: $"), "the call that wrote it is recorded"


def test_cache_misses_of_the_recording_are_not_told_as_savings(studied: Studied) -> None:
    dear = with_usage(studied.subject.material, CallUsage(1_000_000, 1, 0, 1))
    other = beside(simulate_session(studied, 1_500), dear)
    headline = headline_of(dear, other)
    assert headline.text.startswith(f"{dollars(other.baseline.totals.dollars)} if nothing is evicted, simulated → ")
    assert (
        f"{dollars(account_of(dear.session, dear.output_tokens, AUTOMATIC).at_least)} as recorded; " in headline.detail
    )


def test_two_figures_never_bear_one_name(studied: Studied) -> None:
    """What a client states differs by a cent from the price list: for an answer that broke off it knew more."""
    model = "openai:gpt-4o-mini"
    material = with_usage(studied.subject.material, CallUsage(10_000, 90_000, 0, 1))
    session = material.session
    calls = [replace(call, model="gpt-4o-mini", provider="openai") for call in session.calls]
    material = replace(material, session=replace(session, calls=calls))
    pricing = replace(AUTOMATIC, prices=Prices.of(model), models=((model, Prices.of(model)),))
    listed = sum(filter(None, comparable_costs(material, pricing)))
    for more, label in ((0.0, "as recorded"), (0.002, "as recorded, at list prices")):
        first = replace(calls[0], cost=listed / len(calls) + more)
        stated = replace(material, session=replace(material.session, calls=[first, *calls[1:]]))
        other = beside(simulate_session(studied, 1_500, pricing=pricing), stated)
        lowest = Baselines.of(stated, pricing, replace(other.baseline, totals=dearer(other.baseline.totals))).lowest()
        assert str(lowest) == f"{dollars(listed)} {label}"
        paid = Recorded.of(stated, pricing, 1_500).paid
        assert (dollars(paid) == dollars(listed)) == (not more)


def test_calls_beside_the_conversation_are_named_where_they_are_counted(studied: Studied) -> None:
    material = with_usage(studied.subject.material, CallUsage(10_000, 90_000, 0, 1))
    assert not Recorded.of(material, AUTOMATIC, 1_500).bounds
    alone = Recorded.of(material, AUTOMATIC, 1_500).paid
    material.session.asides.append(ModelCall(5, 5, CallUsage(1_000_000, 0, 0, 1)))
    counted = Recorded.of(material, AUTOMATIC, 1_500)
    assert counted.bounds == f"with {dollars(counted.paid - alone)} for 1 call beside the conversation"


@pytest.mark.parametrize("provider", ["azure", "google-vertex-anthropic", "gcp_vertex_ai"])
def test_where_a_price_goes_by_an_unrecorded_region_it_is_a_lower_bound(studied: Studied, provider: str) -> None:
    material = with_usage(studied.subject.material, CallUsage(10_000, 90_000, 0, 1))
    session = material.session
    elsewhere = [replace(call, provider=provider) for call in session.calls]
    known = Recorded.of(material, AUTOMATIC, 1_500)
    bound = Recorded.of(replace(material, session=replace(session, calls=elsewhere)), AUTOMATIC, 1_500)
    calls = len(elsewhere)
    assert known.complete
    assert not bound.complete
    assert bound.paid == known.paid
    assert bound.bounds == f"{calls} calls at the lowest price of the provider"
    assert bound.account.describe() == f"at least {dollars(known.paid)}"
    whole = replace(material, session=replace(session, calls=elsewhere))
    before = beside(simulate_session(studied, 1_500), whole)
    described = Baselines.of(whole, AUTOMATIC, before.baseline).describe()
    assert described.startswith(f"at least {dollars(known.paid)} as recorded ({calls} calls at the lowest price")
    money = money_of(whole, AUTOMATIC)
    assert (money.eviction_saved, money.account.complete) == (0, False)
    stated = [replace(call, cost=0.25) for call in elsewhere]
    own = replace(AUTOMATIC, models=(("", AUTOMATIC.prices),))
    assert Recorded.of(replace(material, session=replace(session, calls=stated)), own, 1_500).complete


@pytest.mark.parametrize("told_by", ["recording", "price list"])
def test_what_no_window_could_hold_is_no_baseline(studied: Studied, told_by: str) -> None:
    material, other = studied.subject.material, simulate_session(studied, 1_500)
    largest = other.baseline.totals.peak
    if told_by == "recording":
        material = replace(material, session=replace(material.session, window=largest - 1))
    else:
        prices = replace(AUTOMATIC.prices, window=largest - 1)
        other = replace(other, pricing=replace(AUTOMATIC, prices=prices))
    headline = headline_of(material, other)
    assert "there is no cost without Wane to compare it with" in headline.text
    impossible = f"which was not possible: {largest:,} tokens, and the window holds {largest - 1:,}"
    assert f"if nothing is evicted, simulated, {impossible}." in headline.detail
    dear = with_usage(material, CallUsage(1_000_000, 1, 0, 1))
    assert "as recorded → " in headline_of(dear, beside(other, dear)).text


def test_a_session_that_fits_is_left_alone() -> None:
    studied = working(4, 20).study_session()
    headline = headline_of(studied.subject.material, simulate_session(studied, 50_000))
    assert headline.text == "This session fits into 50,000 tokens: Wane would have evicted nothing"
    assert headline.detail == ""


def test_a_cost_without_output_that_was_not_reported_is_a_bound(studied: Studied) -> None:
    """A count of its text may be too high: it stands beside the bound, and in the comparison, which says so."""
    material = with_usage(studied.subject.material, CallUsage(100, 2_000, 300))
    calls = len(material.session.calls)
    account = account_of(material.session, material.output_tokens, WRITTEN)
    assert (account.estimated, account.output_tokens) == (calls, sum(material.output_tokens))
    silent = replace(
        material, session=replace(material.session, calls=[without_output(call) for call in material.session.calls])
    )
    least = account_of(silent.session, silent.output_tokens, WRITTEN)
    assert account.at_least == pytest.approx(least.at_least)
    assert account.cost is None
    assert account.guessed > 0
    other = simulate_session(studied, 1_500)
    headline = headline_of(material, other)
    about = (
        f"without the output of {calls} calls, which was not recorded (about {dollars(account.guessed)} by its text)"
    )
    assert f"At least {dollars(account.at_least)} as recorded ({about}); " in headline.detail
    before = Baselines.of(material, WRITTEN, other.baseline).lowest()
    assert before is not None
    if before.recorded:
        assert str(before).startswith(f"about {dollars(account.at_least + account.guessed)} as recorded, with output ")


def without_output(call: ModelCall) -> ModelCall:
    """The same call, of which it is known that it had no output."""
    assert call.usage is not None
    return replace(call, usage=replace(call.usage, output=0))


@pytest.mark.full
@needs_sessions
@pytest.mark.parametrize("name", ["codex/agentv-00_34f597b72d_1", "codex/agentv-33_5841c2d678_0", "pi/large-session"])
def test_a_replay_ends_with_what_the_headline_says(name: str) -> None:
    found = gather([SESSIONS / f"{name}.jsonl"]).recordings
    studied = study(found, Pricing.of("anthropic:claude-sonnet-4-5"), own_prices=True)
    done = compare(studied, ["cwl"], StrategySettings(), InProcess())
    (cwl,), (none,) = done.replays["cwl"], done.replays["none"]
    headline = headline_of(studied[0].subject.material, Simulated(cwl, none, studied[0].pricing))
    assert headline.text.startswith(done.verdict())


def test_a_replay_of_what_wane_managed_says_what_it_counts_twice(studied: Studied) -> None:
    material = with_usage(studied.subject.material, CallUsage(10, 500, 0, 5))
    other = simulate_session(studied, 1_500)
    totals = replace(other.replay.totals, reread_cost=100.0)
    plain = verdict(Baselines.of(material, AUTOMATIC, other.baseline), totals, "cwl")
    assert f"{dollars(totals.dollars + 100)} with cwl, simulated with fetching again" in plain
    assert "twice" not in plain
    material.session.evictions.append(RecordedEviction(20, (4, 5), 1_500, 900))
    managed = Baselines.of(material, AUTOMATIC, other.baseline)
    why = "; some fetching again counts twice, because the session was recorded with Wane at work (for {})"
    cost = dollars(account_of(material.session, material.output_tokens, AUTOMATIC).at_least)
    assert verdict(managed, totals, "cwl").endswith(why.format(cost))
    assert "twice" not in verdict(managed, other.replay.totals, "cwl"), "nothing would be fetched again"
    some = verdict(managed + replace(managed, managed=0, evicted=0), totals, "cwl")
    assert some.endswith(", because 1 of 2 sessions were recorded with Wane at work")


def test_what_wane_managed_tells_what_marks_cost_and_eviction_saved(studied: Studied) -> None:
    material = with_usage(studied.subject.material, CallUsage(10, 500, 0, 5))
    material.session.evictions.append(RecordedEviction(20, (4, 5), 1_500, 900))
    other = beside(simulate_session(studied, 1_500, "none"), material)
    money, spent = (
        money_of(material, AUTOMATIC),
        account_of(material.session, material.output_tokens, AUTOMATIC).at_least,
    )
    assert money.account.at_least == pytest.approx(spent)
    assert money.eviction_saved > 0 == money.marks_cost, "nothing is marked here"
    assert headline_of(material, other).text.startswith(
        f"Wane ran one pass, {dollars(spent)} as recorded; about: marks cost $0.00, eviction saved "
        f"{dollars(round(money.eviction_saved, 2))}, in all {dollars(round(money.saved, 2))} less than without Wane. "
    )
    baselines = Baselines.of(material, AUTOMATIC, other.baseline)
    lowest = baselines.lowest()
    assert lowest is not None
    assert (lowest.cost, lowest.label) == (pytest.approx(money.unmanaged), WITHOUT_WANE)
    assert f"; {dollars(money.unmanaged)} {WITHOUT_WANE}; " in baselines.describe()
    assert baselines.describe().endswith(" if nothing is evicted, with the marks, simulated")
    material.session.evictions.append(RecordedEviction(30, (6, 7), 1_500, 900))
    silent = replace(material, session=replace(material.session, calls=studied.recording.session.calls))
    assert headline_of(silent, other).text.startswith("Wane ran 2 passes; no usage with a known price was recorded. ")
    some = with_usage(material, CallUsage(10, 500, 0, 5), unreported=1)
    assert headline_of(some, other).text.startswith("Wane ran 2 passes, at least $")
    # Of the calls that reported, the cost without Wane is estimated alike.
    part = Baselines.of(some, AUTOMATIC, beside(other, some).baseline).lowest()
    assert part is not None
    calls = len(some.session.calls)
    assert (part.label, part.share) == (WITHOUT_WANE, pytest.approx((calls - 1) / calls))
    assert part.cost == pytest.approx(money_of(some, AUTOMATIC).unmanaged)


def test_several_sessions_take_the_cost_without_wane_of_those_that_it_managed(studied: Studied) -> None:
    plain = with_usage(studied.subject.material, CallUsage(10, 500, 0, 5))
    other = beside(simulate_session(studied, 1_500, "none"), plain)
    baseline = replace(other.baseline, totals=dearer(other.baseline.totals))
    managed = replace(plain, session=replace(plain.session, evictions=[RecordedEviction(20, (4, 5), 1_500, 900)]))
    both = Baselines.of(plain, AUTOMATIC, baseline) + Baselines.of(managed, AUTOMATIC, baseline)
    spent = account_of(plain.session, plain.output_tokens, AUTOMATIC).at_least
    unmanaged = money_of(managed, AUTOMATIC).unmanaged
    assert unmanaged > spent
    lowest = both.lowest()
    assert lowest is not None
    assert lowest.cost == pytest.approx(spent + unmanaged)
    assert lowest.label == "as recorded, and estimated without Wane where it was at work"
