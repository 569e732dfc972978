"""`wane plan`: what a pass over a recorded session would evict, and why."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from wane.cli import failure
from wane.cli.counter import usable_counter
from wane.cli.flags import POLICIES
from wane.cli.reading import read_messages
from wane.cli.text import say
from wane.core import Policy, parse_budget
from wane.core.errors import ConfigError
from wane.planning import Plan, plan

NO_SHARE: Final = "none"
"""What `--description-share` takes for no limit."""

_ROWS: Final = 40


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """One run of `wane plan`, as the command line gave it; `wane plan --help` says what they mean."""

    file: str
    budget: str = "80k"
    window: str = "200k"
    policy: str = "default"
    low_water: float | None = None
    description_share: str | None = None
    format: str = "auto"
    counter: str = "chars"
    tool_classes: Sequence[str] = ()
    as_json: bool = False
    full: bool = False
    tell: bool = False


def run_plan(options: PlanOptions) -> int:
    """Print a plan, and return the exit code.

    Raises:
        WaneError: for options, a file or messages that cannot be used.
    """
    result = make_plan(options)
    if options.as_json:
        _print_json(result)
    else:
        _print_picture(result, None if options.full else _ROWS)
    return failure.OVER_BUDGET if options.tell and not result.satisfied else failure.OK


def make_plan(options: PlanOptions) -> Plan:
    """Return the plan that the options ask for; a counter that cannot work here is replaced by `chars`, and said so.

    Raises:
        WaneError: for options, a file or messages that cannot be used.
    """
    # Before the file is read, which may be long.
    budget = parse_budget(options.budget, window=parse_window(options.window))
    policy = choose_policy(options.policy, options.low_water, options.description_share)
    classes = parse_tool_classes(options.tool_classes)
    messages = read_messages(options.file)
    format_ = messages.format if messages.format and options.format == "auto" else options.format
    counter = usable_counter(options.counter)
    return plan(messages.data, budget=budget, policy=policy, format=format_, counter=counter, tool_classes=classes)


def choose_policy(name: str, low_water: float | None, description_share: str | None) -> Policy:
    """Return the policy of a name, with settings that replace its own where they are given.

    Raises:
        ConfigError: for a name or a setting that cannot work.
    """
    if name not in POLICIES:
        raise ConfigError(f"policy {name!r} is unknown; known: {', '.join(POLICIES)}")
    policy = Policy.paper() if name == "paper" else Policy()
    try:
        if low_water is not None:
            policy = replace(policy, low_water=low_water)
        if description_share is not None:
            policy = replace(policy, description_share=_share(description_share))
    except ConfigError as error:
        # As they are called, and written, on a command line.
        told = str(error).replace("low_water", "--low-water").replace("description_share", "--description-share")
        raise ConfigError(told.replace("None", NO_SHARE)) from None
    return policy


def parse_window(text: str) -> int:
    """Return the tokens of a model's window from what a user writes: `200000`, `200k`.

    Raises:
        ConfigError: for anything else, and for what cannot be a window.
    """
    try:
        return parse_budget(text)
    except ConfigError:
        raise ConfigError(
            f"--window is {text!r:.80}; it must be the tokens of the model's window, such as 200000 or 200k"
        ) from None


def parse_tool_classes(texts: Iterable[str]) -> dict[str, str]:
    """Return classes by tool name from `NAME=CLASS`.

    Raises:
        ConfigError: for a text of another form; the class itself is judged by the core.
    """
    classes: dict[str, str] = {}
    for text in texts:
        name, sign, value = text.rpartition("=")
        if not (sign and name.strip() and value.strip()):
            raise ConfigError(f"tool class {text!r} is not understood; write NAME=CLASS, such as read=bulk")
        classes[name.strip()] = value.strip()
    return classes


def verdict(result: Plan) -> str:
    """Return the outcome in a sentence or two, for people."""
    report = result.report
    freed, steps = report.tokens_before - report.tokens_after, len(report.steps)
    if not report.satisfied:
        held = ", ".join(f"{label} {tokens:,}" for label, tokens in result.pinned.holders())
        done = f" after {freed:,} went" if freed else ""
        return (
            f"The budget cannot be met: {report.tokens_after:,} tokens stay{done}, {report.excess:,} over the budget "
            f"of {report.budget:,}. What stays is pinned: {held}."
        )
    if not report.ran:
        return f"Nothing to evict: the window holds {report.tokens_after:,} of {report.budget:,} tokens."
    aim = "" if report.target == report.budget else f", down to low water at {report.target:,}"
    return (
        f"One pass of {steps} step{'s' * (steps != 1)} evicts {freed:,} tokens{aim}: "
        f"{report.tokens_before:,} to {report.tokens_after:,} of {report.budget:,}."
    )


def _share(text: str) -> float | None:
    if text.strip().lower() == NO_SHARE:
        return None
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"description share {text!r} is not a number from 0 to 1, or {NO_SHARE!r}") from None


def _print_json(result: Plan) -> None:
    data = result.to_dict()
    try:
        # ASCII, because escapes are the one way to print the lone surrogates that JSON may hold.
        try:
            text = json.dumps(data, allow_nan=False)
        except ValueError:
            # Python reads and writes NaN and Infinity, and so files have them; in JSON they are nothing.
            say("warning: the messages hold NaN or Infinity, which JSON does not have; null stands for them")
            text = json.dumps(_finite(data), allow_nan=False)
    except RecursionError:
        raise failure.InputError("the messages are nested too deeply to be printed as JSON") from None
    sys.stdout.write(f"{text}\n")


def _finite(value: Any) -> Any:
    """Return JSON data with null for each number that JSON cannot write, as other languages' writers have it."""
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _print_picture(result: Plan, limit: int | None) -> None:
    from wane.cli import layout, picture
    from wane.cli.console import stdout_console

    console = stdout_console()
    blocks = layout.blocks(result.item_kinds, result.item_tokens, result.episodes, result.visible)
    rows = layout.rows(blocks, result.episodes)
    console.print(picture.titled("What the window holds", picture.episode_table(rows, limit=limit)))
    if result.report.steps:
        steps = layout.step_rows(result.report.steps)
        console.print(picture.titled("What goes, in this order", picture.step_table(steps, limit=limit)))
    console.print(picture.titled("The window", picture.window_picture(blocks, result.report.budget)))
    console.print(verdict(result), style="" if result.satisfied else "bold red")
    if not result.episodes and not result.satisfied:
        console.print(
            "There is no episode in this session: no delimiter call was accepted, so that all of it is prologue, which "
            "is never evicted."
        )
