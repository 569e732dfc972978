"""`wane tune`: recommends a budget and a policy for the user's work, with reasons."""

from __future__ import annotations

import json
import os
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any, Final

from wane.budgets import TunedBudget, is_auto
from wane.cli import failure
from wane.cli.lab.common import check_report, print_json, print_lines, round_tokens
from wane.cli.lab.lab_commands import TuneOptions
from wane.cli.lab.preparing import prepare, price_source, read_lines
from wane.cli.shared_flags import PolicyOptions
from wane.cli.terminal.progress import Bar
from wane.cli.terminal.tables import plain_table
from wane.cli.terminal.text import count_noun, plain_console, printable
from wane.lab.advice import advised_for_all, common_window, kept_budgets, recorded_budgets
from wane.lab.best_budget import beats, differences, explain_budget
from wane.lab.names import JOURNAL
from wane.lab.replaying.compare import cheaper_clause
from wane.lab.replaying.tight_sessions import tight_lines
from wane.lab.replaying.verdict import NOTABLE, capital, in_view, verdict
from wane.lab.sweep import check_budgets, parse_budgets
from wane.lab.tuning import BUDGETS, Alternative, Candidate, Tuning, tune
from wane.money import dollars, share
from wane.strategies.strategy import StrategySettings
from wane.tuned import save_tuned
from wane.words import PURPOSES, name_strategy

FEW: Final = 5
"""With fewer sessions, a recommendation warns that it rests on little."""


def run_tune(options: TuneOptions) -> int:
    if options.budgets is None and options.steps is not None:
        raise failure.UsageError("--steps goes with a range, such as --budgets 30k..150k")
    check_report(options.report)
    alone = options.budgets is not None and is_auto(options.budgets)
    budgets: Sequence[int] = ()
    if tried := None if alone else options.budgets:
        check_budgets(tried, options.steps)
    with Bar() as bar:
        settings = StrategySettings()
        setup = prepare(options.sessions, options.lab, settings, bar)
        progress, advised = bar.stage("Trying"), None
        if tried:
            budgets = parse_budgets(tried, options.steps, window=common_window(setup.studied))
        else:
            advised = advised_for_all(setup.studied)
            budgets = () if alone else [*kept_budgets(setup.studied, BUDGETS), *recorded_budgets(setup.studied)]
        result = tune(setup.studied, settings, setup.engine, budgets, progress, advised)
    saved = None
    if options.save and not result.unfilled:
        saved = save_tuned(TunedBudget(result.chosen.budget, len(result.studied)), os.environ)
    sources = Counter(prepared.recording.session.source for prepared in result.studied)
    command = "" if result.unfilled else command_for(result.chosen, sources.most_common(1)[0][0])
    others = compare_others(result)
    if options.report is not None:
        from wane.lab.report import write_tune_report

        write_tune_report(options.report, result, command, list(reasons(result)), others)
    if options.as_json:
        data = result.to_dict() | {
            "reasons": list(reasons(result)),
            "others": others,
            "command": command or None,
            "saved": None if saved is None else str(saved),
        }
        print_json(data, setup.gathered)
        return failure.OK
    print_lines([PURPOSES["tune"], "", *read_lines(setup.gathered, setup.studied)])
    print_lines([f"Prices {price_source(result.studied)}", ""])
    if result.unfilled:
        print_lines(reasons(result))
        if options.save:
            print_lines(["There is nothing to keep for --budget auto."])
        return failure.OK
    departures = result.chosen.departures.items()
    policy = ", ".join(f"{name} {_value_text(value)}" for name, value in departures) or "the default policy"
    print_lines([f"Recommended: a budget of {result.chosen.budget:,} tokens, with {policy}.", ""])
    print_lines(reasons(result))
    if others:
        # In a narrow terminal, what stands last wraps.
        table = plain_table("only this changed", "cost", "kept of what was needed", "*besides")
        for row in others:
            table.add_row(*row)
        plain_console().print("", table)
    print_lines(["", "For the agent's settings (.wane.toml, or your own config.toml):", ""])
    print_lines([f"  {line}" for line in result.config().splitlines()], "bold")
    if saved is not None:
        print_lines(["", printable(f"Kept for --budget auto, in {saved}.")])
    without_flag = [name for name in result.chosen.departures if name not in _FLAGS]
    left_out = ""
    if without_flag:
        left_out = f", but for {' and '.join(without_flag)}, which only the agent's settings have"
    print_lines(["", f"To work with it{left_out}:", ""])
    # Alone on its line and unbroken, to be pasted.
    plain_console().print(f"  {command}", style="bold", soft_wrap=True)
    return failure.OK


_FLAGS: Final = frozenset(knob.name for knob in fields(PolicyOptions))
"""Fields of a policy that options of commands set, by the same names."""


def command_for(chosen: Candidate, source: str) -> str:
    """Return the command that starts the agent of sessions with a budget and a policy, by the sessions' format."""
    words = ["wane"] if source == JOURNAL else ["wane", "run"]
    words += ["--budget", str(chosen.budget)]
    for name, value in chosen.departures.items():
        if name in _FLAGS:
            words += [f"--{name.replace('_', '-')}", "none" if value is None else str(value)]
    if source != JOURNAL:
        words.append(PROGRAMS.get(source, "claude"))
    return shlex.join(words)


PROGRAMS: Final = {
    "claude-code": "claude",
    "cline": "cline",
    "codex": "codex",
    "copilot-cli": "copilot",
    "gemini-cli": "gemini",
    "kimi-code": "kimi",
    "mistral-vibe": "vibe",
    "opencode": "opencode",
    "pi": "pi",
    "qwen-code": "qwen",
}
"""The programs that `wane run` starts, by the format of their sessions."""


def reasons(result: Tuning) -> Iterator[str]:
    """Yield the reasons for the choice, one or two sentences each."""
    chosen = result.chosen
    if result.unfilled:
        yield (
            f"These sessions never fill the smallest budget tried: nothing was evicted at any. They give no reason to "
            f"change the defaults, and cost {dollars(chosen.cost)} either way."
        )
        return
    yield f"{verdict(result.baselines, chosen.totals, 'these settings')}. {in_view(chosen.totals)}"
    kept = f"{share(chosen.kept)} ({_settings(chosen)})"
    yield f"Simulated over all calls, these settings cost {dollars(chosen.cost)} and keep {kept}."
    yield f"{capital(result.baselines.describe())}."
    yield (
        "All costs here include fetching evicted content again, and what is kept is the mean of two shares: of what "
        f"later calls used, still in view ({share(chosen.totals.loss.reference_recall)} of "
        f"{chosen.totals.loss.uses:,} uses of names), and of edits with the file in view "
        f"({share(chosen.totals.loss.edit_grounding)} of {chosen.totals.loss.edits:,} edits)."
    )
    if result.default is chosen:
        yield "These are the defaults."
    elif result.default is not None:
        cost, keeps, besides = _against(chosen, result.default)
        difference = ", ".join(filter(None, (cost, f"keeps {keeps}", besides)))
        yield f"The defaults, {_brief(result.default)}: {difference}."
    for recorded in recorded_budgets(result.studied):
        if recorded == chosen.budget:
            yield "It is the budget that Wane worked with here."
        for candidate in result.candidates:
            if (candidate.budget, candidate.policy) == (recorded, chosen.policy) and candidate is not chosen:
                cost, keeps, besides = _against(chosen, candidate)
                difference = ", ".join(filter(None, (cost, f"keeps {keeps}", besides)))
                yield f"The budget that Wane worked with here, {_brief(candidate)}: {difference}."
    if result.advised is not None:
        yield explain_budget(chosen, result.advised, result.candidates)
    yield _of_the_frontier(result)
    if result.rivals:
        cheapest = min(result.rivals, key=lambda rival: rival.totals.full_cost)
        if cheapest.totals.full_cost < NOTABLE * chosen.cost:
            label = f"{capital(name_strategy(cheapest.value))} at {chosen.budget:,} tokens"
            clause = cheaper_clause(label, cheapest.totals.full_cost, cheapest.totals)
            yield f"{clause}; wane replay compares all strategies."
    yield from _of_the_edges(result)
    for rival in result.rivals:
        if beats(rival.totals, chosen.totals) and not rival.totals.loss.user_turns_lost:
            setting = f"strategy = {json.dumps(rival.value)}"
            yield f"On these sessions {rival.value} is better than Wane; to use it, set {setting}."
    yield from tight_lines(result.tight, len(result.studied))
    if len(result.studied) < FEW:
        yield (
            f"This rests on only {count_noun(len(result.studied), 'session')}: on the next one, settings that lie as "
            "close together as some of these may come in another order. Add more sessions for an answer that holds for "
            "other work."
        )


def _of_the_frontier(result: Tuning) -> str:
    cheap, dear = result.frontier[0], result.frontier[-1]
    if cheap is dear:
        return "It is cheapest and keeps most of all budgets and policies that were tried."
    extra = f"{dollars(dear.cost - result.chosen.cost)} more, for {100 * (dear.kept - result.chosen.kept):.1f} points"
    if result.cheapest:
        return f"No other budget or policy that was tried is cheaper. Keeping most costs {extra}: {_brief(dear)}."
    has_knee = result.advised is None and len(result.frontier) > 2
    knee = "The choice is the point beyond which spending more hardly keeps more. " if has_knee else ""
    return (
        f"Of all budgets and policies that were tried, the cheapest is {_brief(cheap)}, and {_brief(dear)} keeps "
        f"most. {knee}None is clearly cheaper and keeps as much, or keeps clearly more and costs as much."
    )


def _of_the_edges(result: Tuning) -> Iterator[str]:
    """Yield a sentence for each setting of the choice that is at the edge of what was tried."""
    budget, low_water = result.chosen.budget, result.chosen.policy.low_water
    match result.edges.get("budget"):
        case "lowest":
            smaller = f"a smaller one may be better still: try --budgets {budget // 2}..{budget}"
            yield f"This is the smallest budget that was tried, so {smaller}."
        case "highest":
            larger = f"a larger one may be better still: try --budgets {budget}..{2 * budget}"
            yield f"This is the largest budget that was tried, so {larger}."
    if "low_water" in result.edges:
        edge = result.edges["low_water"]
        amount = "more" if edge == "lowest" else "less"
        yield (
            f"Its low water of {low_water} is the {edge} that was tried: evicting {amount} at once may be better still."
        )


def _brief(candidate: Candidate) -> str:
    return f"{dollars(candidate.cost)} and {share(candidate.kept)} kept ({_settings(candidate)})"


def _settings(candidate: Candidate) -> str:
    """Return the budget, the low water and the order, and what else departs from the defaults."""
    named = {"low_water": candidate.policy.low_water, "order": candidate.policy.order, **candidate.departures}
    policy = [f"{name.replace('_', ' ')} {_value_text(value)}" for name, value in named.items()]
    return ", ".join([round_tokens(candidate.budget), *policy])


def _value_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "the order's own" if value is None else str(value)


def compare_others(result: Tuning) -> list[tuple[str, str, str, str]]:
    """Return what else was tried: its name, and against the choice its cost, what it keeps, and what else differs."""
    if result.unfilled:
        return []
    rows = []
    for alternative in result.alternatives:
        name = f"{alternative.what.replace('_', ' ')} {_value_text(alternative.value)}"
        if alternative.what == "budget":
            name = f"budget {round_tokens(alternative.value)}"
        elif alternative.what == "strategy":
            name = name_strategy(alternative.value)
        rows.append((name, *_against(result.chosen, alternative)))
    return rows


def _against(chosen: Candidate, candidate: Alternative | Candidate) -> tuple[str, str, str]:
    cost, keeps = differences(candidate.totals, chosen.totals)
    besides = []
    lost = candidate.totals.loss.user_turns_lost
    if lost:
        besides.append(f"loses {lost:,} of your {count_noun(candidate.totals.loss.user_turns, 'message')}")
    if candidate.totals.own_calls:
        besides.append(f"calls the model {count_noun(candidate.totals.own_calls, 'time')} more")
    return cost, keeps, ", ".join(besides)
