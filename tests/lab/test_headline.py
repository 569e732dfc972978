"""The headline of a viewed session: true to the figures, whatever they are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.lab.tales import AUTOMATIC, WRITTEN, Tale, working
from wane.lab.counting import Material
from wane.lab.replaying.engine import Job
from wane.lab.replaying.replay import Pricing
from wane.lab.replaying.studying import Studied
from wane.lab.report.headline import Simulated, headline_of, recorded_cost
from wane.lab.session import Compaction, Eviction, Usage
from wane.money import dollars
from wane.prices import CacheUse
from wane.strategies.base import Settings


def simulated(studied: Studied, budget: int, strategy: str = "cwl", pricing: Pricing = AUTOMATIC) -> Simulated:
    settings = Settings(budget=budget, annotate=studied.annotate)
    replay, baseline = (Job(0, name, settings, pricing).run(studied.subject) for name in (strategy, "none"))
    return Simulated(replay, baseline, pricing)


def recorded(material: Material, usage: Usage) -> Material:
    """The session with one usage at every call."""
    calls = [replace(call, usage=usage) for call in material.session.calls]
    return replace(material, session=replace(material.session, calls=calls))


def test_a_saving_is_told_against_what_never_evicting_costs_if_no_usage_was_recorded() -> None:
    studied = working(40, 100).studied()
    other = simulated(studied, 1_500)
    before = dollars(other.baseline.totals.dollars)
    after = dollars(other.replay.totals.dollars + other.replay.totals.reread_cost)
    headline = headline_of(studied.subject.material, other)
    assert headline.text == f"{before} → {after}, nothing you said was lost"
    assert headline.detail.startswith(
        f"{before} if nothing is evicted, simulated; {after} with Wane at 1,500 tokens, simulated"
    )


def test_fetching_again_is_counted_in_and_told() -> None:
    studied = working(40, 100).studied()
    other = simulated(studied, 1_500)
    totals = replace(other.replay.totals, reread_cost=1_000.0)
    fetching = replace(other, replay=replace(other.replay, totals=totals))
    detail = headline_of(studied.subject.material, fetching).detail
    assert f"; {dollars(totals.dollars + 1_000)} with Wane at 1,500 tokens" in detail
    assert ", $1,000.00 of it for fetching evicted content again." in detail


def test_a_lost_turn_is_not_passed_over() -> None:
    studied = working(40, 100).studied()
    other = simulated(studied, 1_500, "truncate")
    assert other.replay.totals.loss.user_turns_lost
    assert "nothing you said" not in headline_of(studied.subject.material, other).text
    silent = Tale().system(20).calls("a", 10).result("a", 3_000).says(5).calls("b", 9).result("b", 3_000).says(5)
    told = headline_of(silent.studied().subject.material, simulated(silent.studied(), 3_500))
    assert "nothing you said" not in told.text  # nobody said anything


def test_where_nothing_is_saved_it_says_so() -> None:
    studied = working(40, 100).studied()
    cheap = recorded(studied.subject.material, Usage(1, 0, 0, 1))
    other = simulated(studied, 1_500)
    headline = headline_of(cheap, other)
    assert headline.text.startswith("No saving here: $")
    assert "nothing you said" not in headline.text
    assert " as recorded; " in headline.detail
    cheap.session.compactions.append(Compaction(5, "all", 5))
    assert " as recorded, without the calls that wrote its summaries; " in headline_of(cheap, other).detail


def test_cache_misses_of_the_recording_are_not_told_as_savings() -> None:
    studied = working(40, 100).studied()
    dear = recorded(studied.subject.material, Usage(1_000_000, 0, 0, 1))
    other = simulated(studied, 1_500)
    headline = headline_of(dear, other)
    assert headline.text.startswith(f"{dollars(other.baseline.totals.dollars)} → ")
    assert f"; {dollars(recorded_cost(dear, AUTOMATIC) or 0)} as recorded; " in headline.detail


def test_a_session_that_fits_is_left_alone() -> None:
    studied = working(4, 20).studied()
    headline = headline_of(studied.subject.material, simulated(studied, 50_000))
    assert headline.text == "This session fits into 50,000 tokens: Wane would have evicted nothing"
    assert headline.detail == ""


def test_the_recorded_cost_is_that_of_the_recorded_usage() -> None:
    material = working(4, 20).studied().subject.material
    calls = len(material.session.calls)
    assert recorded_cost(material, WRITTEN) is None
    usage = Usage(100, 2_000, 300, 50)
    expected = calls * WRITTEN.prices.cost(CacheUse(2_000, 300, 100), 50).total
    assert recorded_cost(recorded(material, usage), WRITTEN) == pytest.approx(expected)
    # Where writes cost nothing extra, they are input like any other.
    expected = calls * AUTOMATIC.prices.cost(CacheUse(2_000, 0, 400), 50).total
    assert recorded_cost(recorded(material, usage), AUTOMATIC) == pytest.approx(expected)


def test_what_wane_managed_stands_against_never_evicting() -> None:
    studied = working(40, 100).studied()
    material = recorded(studied.subject.material, Usage(10, 500, 0, 5))
    material.session.evictions.append(Eviction(20, (4, 5), 1_500, 900))
    other = simulated(studied, 1_500, "none")
    before, after = dollars(other.baseline.totals.dollars), dollars(recorded_cost(material, AUTOMATIC) or 0)
    assert headline_of(material, other).text == f"{before} → {after}, nothing you said was lost"
    user = material.session.user_turns[0]
    material.session.evictions.append(Eviction(30, (user,), 1_500, 900))
    assert headline_of(material, other).text == f"{before} → {after}"
    silent = replace(material, session=replace(material.session, calls=studied.found.session.calls))
    assert headline_of(silent, other).text == "Wane ran 2 passes"
