"""Comparing, sweeping and tuning, on sessions told here."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lab.tales import AUTOMATIC, WRITTEN, Tale, working
from wane.core import DEFAULT_BUDGET, Policy
from wane.core.errors import ConfigError
from wane.lab.best_budget import CLOSE, GAIN, choose, explain_knee, frontier, knee, unbeaten
from wane.lab.loss import LossTotals
from wane.lab.readers import Recording
from wane.lab.recorded_session import CallUsage, ModelCall
from wane.lab.replaying.compare import BASELINE, compare, parse_strategies
from wane.lab.replaying.jobs import InProcess
from wane.lab.replaying.replay_figures import Totals
from wane.lab.replaying.strategy_replay import Pricing, Subject
from wane.lab.replaying.studying import Studied, study
from wane.lab.sweep import parse_budgets, sweep
from wane.lab.tuning import (
    BUDGETS,
    DEPTHS,
    KNOBS,
    RIVALS,
    Candidate,
    grid,
    tune,
)
from wane.money import dollars, share
from wane.prices import CacheUse, Cost
from wane.strategies.registry import STRATEGY_NAMES
from wane.strategies.strategy import StrategySettings

STUDIED = [working(40, 100, "long").study_session(), working(20, 60, "short").study_session()]
COSTLY = [replace(it, pricing=WRITTEN) for it in STUDIED]
SETTINGS = StrategySettings(budget=1500)


def with_calls(studied: Studied, calls: list[ModelCall]) -> Studied:
    """The session with other model calls."""
    session = replace(studied.recording.session, calls=calls)
    material = replace(studied.subject.material, session=session)
    return replace(
        studied,
        recording=replace(studied.recording, session=session),
        subject=Subject.of(material, studied.subject.summary_tokens),
    )


def with_usage(studied: Studied, usage: CallUsage) -> Studied:
    """The session with one usage at every call."""
    return with_calls(studied, [replace(call, usage=usage) for call in studied.recording.session.calls])


class TestStrategies:
    @pytest.mark.parametrize(
        ("text", "names"),
        [
            ("all", STRATEGY_NAMES),
            ("cwl, none", ("none", "cwl")),
            ("CWL", ("cwl",)),
        ],
    )
    def test_names_and_groups(self, text: str, names: tuple[str, ...]) -> None:
        assert parse_strategies(text) == names

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("best", "'best' is unknown; known: none"),
            (" , ", "no strategy is named"),
            ("CWL,cwl", "names the strategy cwl twice"),
            ("all,cwl", "names the strategy cwl twice"),
        ],
    )
    def test_what_is_no_strategy(self, text: str, why: str) -> None:
        with pytest.raises(ConfigError, match=why):
            parse_strategies(text)


class TestPrices:
    def test_each_session_is_priced_by_its_own_model_if_it_has_one(self) -> None:
        named = replace(AUTOMATIC, models=(("model", AUTOMATIC.prices),))
        own = replace(STUDIED[0], pricing=named)
        mixed = compare([own, COSTLY[1]], ["none"], SETTINGS, InProcess())
        first, second = mixed.replays["none"]
        assert first.totals.cost == compare([STUDIED[0]], [], SETTINGS, InProcess()).totals(BASELINE).cost
        assert second.totals.cost == compare([COSTLY[1]], [], SETTINGS, InProcess()).totals(BASELINE).cost
        assert first.totals.cost != compare([COSTLY[0]], [], SETTINGS, InProcess()).totals(BASELINE).cost
        told = mixed.to_dict()
        assert told["price"] is None  # there is no one price
        assert [it["price"] for it in told["sessions"]] == [AUTOMATIC.prices.name, None]
        assert compare([own], ["none"], SETTINGS, InProcess()).to_dict()["price"] == AUTOMATIC.prices.name

    def test_the_model_of_the_most_calls_counts(self) -> None:
        session = working(3).session
        usual = Pricing.of("anthropic:claude-sonnet-4-5")
        nameless = Pricing.of_recording(session, usual)
        assert (nameless.prices, nameless.own) == (usual.prices, False)
        models = ["claude-haiku-4-5-20251001", *["claude-opus-4-5-20251101"] * (len(session.calls) - 1)]
        named = [replace(call, model=model) for call, model in zip(session.calls, models, strict=True)]
        pricing = Pricing.of_recording(replace(session, calls=named), usual)
        assert (pricing.prices.name, pricing.own) == ("anthropic:claude-opus-4-5", True)
        unknown = [replace(call, model="nobody-knows-it") for call in session.calls]
        pricing = Pricing.of_recording(replace(session, calls=unknown), usual)
        assert (pricing.prices, pricing.own) == (usual.prices, False)
        assert [pricing.prices_for(call) for call in unknown] == [None] * len(unknown)

    @pytest.mark.parametrize("own_prices", [True, False])
    def test_a_session_is_simulated_with_the_lifetime_of_most_of_its_recorded_cache_writes(
        self, own_prices: bool
    ) -> None:
        usual = Pricing.of("anthropic:claude-sonnet-4-5")
        made = [working(3, name=name).session for name in ("hour", "minutes")]
        for session, hours in zip(made, (9, 1), strict=True):
            usages = [
                CallUsage(0, 0, 10, 5, cache_write_hour=0),
                *[CallUsage(0, 0, 10, 5, hours)] * (len(session.calls) - 1),
            ]
            calls = zip(session.calls, usages, strict=True)
            session.calls[:] = [replace(call, model="claude-opus-4-5", usage=usage) for call, usage in calls]
        found = [Recording(session, "") for session in made]
        hour, minutes = study(found, usual, own_prices=own_prices)
        assert (hour.pricing.hour, hour.pricing.rules.lifetime) == (True, 3_600)
        assert (minutes.pricing.hour, minutes.pricing.rules.lifetime) == (False, 300)
        assert [it.to_dict()["cache_hour"] for it in (hour, minutes)] == [True, False]
        assert str(hour.pricing) == f"{minutes.pricing} with 1-hour cache writes"
        asked = study(found, usual.cached_for(hour=True), own_prices=own_prices)
        assert [it.pricing.hour for it in asked] == [True, True]
        assert not Pricing.of("openai:gpt-5.2", hour=True).hour, "only Anthropic offers it"


class TestCompare:
    def test_figures_over_all_sessions_are_the_sum_of_those_of_each(self) -> None:
        data = compare(STUDIED, STRATEGY_NAMES, SETTINGS, InProcess()).to_dict()
        assert [row["name"] for row in data["strategies"]] == list(STRATEGY_NAMES)
        assert [it["name"] for it in data["sessions"]] == ["long", "short"]
        for at, row in enumerate(data["strategies"]):
            each = [it["strategies"][at] for it in data["sessions"]]
            assert row["cost_usd"] == pytest.approx(sum(it["cost_usd"] for it in each))
            assert row["model_calls"] == sum(it["model_calls"] for it in each)
            assert row["peak_tokens"] == max(it["peak_tokens"] for it in each)
        assert json.loads(json.dumps(data, allow_nan=False)) == data

    def test_the_baseline_is_run_and_shown_only_if_it_was_asked_for(self) -> None:
        alone = compare(STUDIED, ["cwl"], SETTINGS, InProcess())
        [row] = alone.to_dict()["strategies"]
        every = compare(STUDIED, ["none", "cwl"], SETTINGS, InProcess()).to_dict()["strategies"]
        assert every[0]["ratio"] == 1.0
        assert row["ratio"] == every[1]["ratio"] == row["cost_usd"] / every[0]["cost_usd"]

    def test_what_was_recorded_stands_beside_what_is_simulated(self) -> None:
        known, unknown = with_usage(COSTLY[0], CallUsage(10, 90, 0, 5)), COSTLY[1]
        data = compare([known, unknown], ["cwl"], SETTINGS, InProcess()).to_dict()
        first, second = data["sessions"]
        calls = len(known.recording.session.calls)
        assert first["recorded"]["cost_usd"] == pytest.approx(
            calls * known.pricing.prices.cost(CacheUse(90, 0, 10), 5).total
        )
        assert first["recorded"]["view_tokens"] == 100
        assert (second["recorded"]["cost_usd"], second["recorded"]["cost_at_least_usd"]) == (None, 0)
        both = data["recorded"]
        assert both["cost_usd"] is None
        assert both["cost_at_least_usd"] == pytest.approx(first["recorded"]["cost_usd"])
        assert (both["priced_calls"], both["model_calls"]) == (calls, data["strategies"][0]["model_calls"])
        half = share(calls / both["model_calls"])
        assert data["verdict"].startswith(f"No saving here: over {half} of the calls: $"), "those with a price"

    def test_the_verdict_is_about_cwl_and_names_what_is_cheaper(self) -> None:
        done = compare(COSTLY, ["none", "truncate", "cwl"], SETTINGS, InProcess())
        costs = {name: done.totals(name).full_cost for name in ("truncate", "cwl")}
        assert f"with Wane at {SETTINGS.budget:,} tokens, simulated" in done.verdict()
        cheaper = costs["truncate"] < 0.99 * costs["cwl"]
        assert ("truncate would have cost" in done.verdict()) == cheaper
        assert compare(COSTLY, ["none"], SETTINGS, InProcess()).verdict() == ""
        assert "with truncate at" in compare(COSTLY, ["truncate"], SETTINGS, InProcess()).verdict()

    def test_what_a_session_shares_with_the_one_it_branches_off_from_counts_there(self) -> None:
        whole = COSTLY[0]
        session = whole.recording.session
        calls = [replace(call, inherited=number < 10) for number, call in enumerate(session.calls)]
        branch = with_calls(whole, calls)
        none = compare([whole], ["none"], SETTINGS, InProcess()).replays["none"][0]
        [replayed] = compare([branch], ["none"], SETTINGS, InProcess()).replays["none"]
        own = none.calls[10:]
        assert len(replayed.calls) == len(none.calls), "the views of all calls are there"
        assert replayed.totals.calls == len(own)
        assert replayed.totals.dollars == pytest.approx(sum(call.cost for call in own))
        assert replayed.totals.viewed == sum(call.tokens for call in own)
        assert replayed.totals.loss.uses == sum(call.loss.uses for call in own)
        assert branch.to_dict()["model_calls"] == len(own)
        assert branch.to_dict()["model_calls_shared"] == 10

    def test_who_annotates_is_told_by_session(self) -> None:
        marked = working(4, name="marked")
        marked.calls("d", 5, "delimiter", action="start", name="look-around", type="expl").result("d", 2)
        studied = [marked.says(5).study_session(), working(4).study_session()]
        data = compare(studied, ["cwl"], SETTINGS, InProcess()).to_dict()
        assert [it["annotation"] for it in data["sessions"]] == ["agent", "inferred"]


class TestBudgets:
    @pytest.mark.parametrize(
        ("text", "steps", "budgets"),
        [
            ("30k..150k", None, (30_000, 60_000, 90_000, 120_000, 150_000)),
            ("30k..150k", 3, (30_000, 90_000, 150_000)),
            ("30k..50k", 4, (30_000, 37_000, 43_000, 50_000)),
            ("0.01k..0.02k", 3, (10, 15, 20)),
            ("80k, 50k,", None, (50_000, 80_000)),
            ("80k", None, (80_000,)),
        ],
    )
    def test_ranges_and_lists(self, text: str, steps: int | None, budgets: tuple[int, ...]) -> None:
        assert parse_budgets(text, steps) == budgets

    @pytest.mark.parametrize(
        ("text", "steps", "why"),
        [
            ("80k..30k", None, "does not ascend"),
            ("30k..80k", 1, "number of steps is 1"),
            ("30k,80k", 4, "a number of steps needs a range"),
            ("much..more", None, "budget 'much' is not understood"),
            ("30..80k", None, "did you mean 30k"),
            ("10%..50%", None, "a share of the model's window"),
            ("80k, 50k,80000", None, "names the budget 80,000 twice"),
            (" , ", None, "no budget is named"),
            ("1000..1002", 5, "does not hold 5 budgets"),
        ],
    )
    def test_what_is_no_range(self, text: str, steps: int | None, why: str) -> None:
        with pytest.raises(ConfigError, match=why):
            parse_budgets(text, steps)


class TestFrontier:
    @given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=30))
    def test_it_holds_exactly_what_nothing_beats(self, points: list[tuple[int, int]]) -> None:
        def beaten(one: tuple[int, int]) -> bool:
            return any(other != one and other[0] <= one[0] and other[1] >= one[1] for other in points)

        best = frontier(points, lambda it: it[0], lambda it: it[1])
        assert best == sorted({point for point in points if not beaten(point)})
        assert knee(best, lambda it: it[0], lambda it: it[1]) in best

    def test_the_knee_is_where_more_begins_to_buy_little(self) -> None:
        points = [(0, 0.0), (1, 0.8), (5, 0.9), (10, 1.0)]
        for rest, best in ((points, 1), (points[3:], 3), (points[2:], 2)):
            assert knee(rest, lambda it: it[0], lambda it: it[1]) is points[best]

    def test_of_equals_the_first_counts(self) -> None:
        assert frontier([("a", 1), ("b", 1)], lambda it: it[1], lambda it: it[1]) == [("a", 1)]


class TestSweep:
    def test_each_point_is_what_a_comparison_at_its_budget_gives(self) -> None:
        done = sweep(STUDIED, ("none", "truncate", "cwl"), [2500, 1000], SETTINGS, InProcess())
        assert [(it.strategy, it.budget) for it in done.points] == [
            ("none", None),
            ("truncate", 1000),
            ("truncate", 2500),
            ("cwl", 1000),
            ("cwl", 2500),
        ]
        for point in done.points[1:]:
            assert point.budget is not None
            at = replace(SETTINGS, budget=point.budget)
            alone = compare(STUDIED, [point.strategy], at, InProcess()).totals(point.strategy)
            assert replace(alone, seconds=0) == replace(point.totals, seconds=0)

    def test_as_data(self) -> None:
        done = sweep(STUDIED, ("truncate", "cwl"), [1000, 2500], SETTINGS, InProcess())
        data = done.to_dict()
        assert json.loads(json.dumps(data, allow_nan=False)) == data
        assert [it["on_frontier"] for it in data["points"]].count(True) == len(data["frontier"]) > 0
        assert [it["of_last"] for it in data["points"]][1::2] == [1.0, 1.0]
        assert data["points"][0]["ratio"] == data["points"][0]["cost_usd"] / done.baseline.dollars


def candidate(cost: float, kept: float, policy: Policy | None = None) -> Candidate:
    loss = LossTotals(uses=1000, in_view=round(1000 * kept), edits=1000, grounded=round(1000 * kept))
    return Candidate(80_000, policy or Policy(), Totals(cost=Cost(fresh=cost), loss=loss))


TRIED = (900, 1500, 2500)


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    return tune(COSTLY, StrategySettings(), InProcess(), TRIED).to_dict()


class TestTune:
    def test_what_keeping_most_would_cost_is_said(self) -> None:
        cheap, dear = candidate(1.0, 0.5), candidate(3.0, 0.9)
        assert explain_knee(cheap, [cheap, dear]) == "80,000 costs $2.00 more and keeps 40.0 points more."
        assert explain_knee(dear, [cheap, dear]) == "No other that was tried keeps more."

    def test_the_tables_name_fields_of_the_policy_and_try_the_default(self) -> None:
        names = {field.name for field in fields(Policy)}
        assert {*DEPTHS, *KNOBS} <= names
        assert Policy() in grid({**DEPTHS, **KNOBS})
        assert DEFAULT_BUDGET in BUDGETS
        assert len(grid(KNOBS)) == len(set(grid(KNOBS)))

    @pytest.mark.full
    def test_it_is_the_same_each_time_and_its_progress_ends_where_it_said(self, data: dict[str, Any]) -> None:
        told: list[tuple[int, int]] = []
        again = tune(COSTLY, StrategySettings(), InProcess(), TRIED, lambda *it: told.append(it)).to_dict()
        assert [done for done, _ in told] == list(range(1, len(told) + 1))
        assert len({of for _, of in told}) == 1
        assert told[-1][0] <= told[-1][1]

        def timeless(value: Any) -> Any:
            if isinstance(value, dict):
                return {key: timeless(inner) for key, inner in value.items() if key != "own_time_ms"}
            if isinstance(value, list):
                return [timeless(inner) for inner in value]
            return value

        assert timeless(again) == timeless(data)

    @pytest.mark.wide
    def test_a_choice_at_the_edge_of_what_was_tried_is_told(self, data: dict[str, Any]) -> None:
        best = data["recommended"]["budget"]
        below = tune(COSTLY, StrategySettings(), InProcess(), [best // 2])
        assert "budget" not in below.edges  # where only one was tried, there is no edge
        lowest = tune(COSTLY, StrategySettings(), InProcess(), [2_500, 10_000])
        assert (lowest.chosen.budget, lowest.edges["budget"]) == (2_500, "lowest")
        highest = tune(COSTLY, StrategySettings(), InProcess(), [400, 500])
        assert (highest.chosen.budget, highest.edges["budget"]) == (500, "highest")
        between = tune(COSTLY, StrategySettings(), InProcess(), [400, best, 100_000])
        assert (between.chosen.budget, "budget" in between.edges) == (best, False)

    def test_sessions_that_fill_no_window_leave_the_defaults(self) -> None:
        done = tune([Tale().user(10).says(5).study_session(pricing=WRITTEN)], StrategySettings(), InProcess())
        assert done.unfilled
        assert (done.chosen.budget, done.chosen.policy) == (DEFAULT_BUDGET, Policy())
        assert done.config() == ""

    @pytest.mark.full
    def test_the_choice_is_one_of_what_was_tried_and_told_against_the_rest(self, data: dict[str, Any]) -> None:
        chosen = data["recommended"]
        cost, kept = chosen["cost_and_again_usd"], chosen["kept"]
        assert chosen in data["candidates"]
        assert {it["budget"] for it in data["candidates"]} == set(TRIED)
        for it in data["candidates"]:
            ratio = it["cost_and_again_usd"] / cost
            more, less = it["kept"] > kept + GAIN, it["kept"] < kept - GAIN
            assert not (ratio < 1 - CLOSE and not less), it
            assert not (more and ratio <= 1 + CLOSE), it
        cheapest = [it["cost_and_again_usd"] for it in data["frontier"]]
        assert cheapest == sorted(cheapest)
        told = [(it["what"], it["value"]) for it in data["alternatives"]]
        others = [("budget", budget) for budget in TRIED if budget != chosen["budget"]]
        assert [one for one in told if one[0] == "budget"] == others
        assert [value for what, value in told if what == "strategy"] == list(RIVALS)
        assert len(told) == len({(what, str(value)) for what, value in told})
        for it in data["alternatives"]:
            assert it["costs_more_usd"] == pytest.approx(it["cost_and_again_usd"] - cost)
        unevicted = f"{dollars(data['none']['cost_usd'])} if nothing is evicted, simulated"
        assert data["verdict"].split(" → ")[0] == unevicted

    def test_a_choice_gives_way_to_what_is_better(self) -> None:
        other = replace(Policy(), evict_when_cold=False)
        chosen, better, dearer = candidate(100, 0.9), candidate(98, 0.9, other), candidate(120, 0.99)
        assert unbeaten(chosen, [chosen, better, dearer]) == better
        assert unbeaten(chosen, [chosen, dearer]) == chosen
        assert unbeaten(chosen, [chosen, candidate(99.8, 0.901, other)]) == chosen, "about as much"
        best = candidate(98, 0.95)
        assert unbeaten(chosen, [chosen, better, best]) == best

    def test_a_policy_must_keep_enough_more_to_be_another(self) -> None:
        other = replace(Policy(), evict_when_cold=False)
        assert choose([candidate(100, 0.9), candidate(101, 0.95, other)]).policy == other
        assert choose([candidate(100, 0.9), candidate(101, 0.901, other)]).policy == Policy()
        assert choose([candidate(100, 0.9), candidate(110, 0.99, other)]).policy == Policy()
        assert candidate(100, 0.9, other).departures == {"evict_when_cold": False}

    def test_no_budget(self) -> None:
        with pytest.raises(ConfigError, match="no budget to try"):
            tune(COSTLY, StrategySettings(), InProcess(), [])
        with pytest.raises(ConfigError, match="no budget to try"):
            sweep(STUDIED, ["cwl"], [], SETTINGS, InProcess())
