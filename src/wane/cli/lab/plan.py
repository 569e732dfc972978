"""`wane plan`: what a pass over a recorded session would evict, and why."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from wane.cli import failure
from wane.cli.flags import POLICIES, POLICY_FLAGS
from wane.cli.lab.reading import Messages, read_one, usable_counter
from wane.cli.terminal.text import counted, printable, say
from wane.core import Policy, parse_budget
from wane.core.errors import ConfigError
from wane.planning import Plan, plan, plan_items
from wane.strategies.base import AnnotateChoice

if TYPE_CHECKING:
    from wane.lab.session import RecordedSession

NO_SHARE: Final = "none"
"""What `--description-share` takes for no limit."""

_ROWS: Final = 40


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The options of one run; see `wane plan --help`."""

    file: str
    budget: str = "80k"
    window: str = "200k"
    policy: str = "default"
    low_water: float | None = None
    description_share: str | None = None
    prologue: str | None = None
    overflow: str | None = None
    format: str = "auto"
    annotate: AnnotateChoice = "auto"
    counter: str = "chars"
    tool_classes: Sequence[str] = ()
    as_json: bool = False
    full: bool = False
    tell: bool = False


def run_plan(options: PlanOptions) -> int:
    """Print a plan, and return the exit code.

    Raises:
        WaneError: for options, a file or a session that cannot be used.
    """
    # Check the options before a file that may be long is read.
    settings: dict[str, Any] = {
        "budget": parse_budget(options.budget, window=parse_window(options.window)),
        "policy": choose_policy(options.policy, {flag.key: getattr(options, flag.key) for flag in POLICY_FLAGS}),
        "tool_classes": parse_tool_classes(options.tool_classes),
        "annotate": options.annotate,
    }
    counter = usable_counter(options.counter)
    found = read_one(options.file, options.format)
    if isinstance(found, Messages):
        session = None
        result = plan(found.data, format=found.format, counter=counter, overhead=found.overhead, **settings)
    else:
        from wane.lab.counting import count

        session, material = found, count(found, counter)
        history = list(zip(material.items, found.parts, strict=True))
        result = plan_items(history, overhead=material.overhead, **settings)
    if options.as_json:
        _print_json(result, session)
    else:
        _print_picture(result, session, None if options.full else _ROWS)
    return failure.OVER_BUDGET if options.tell and not result.satisfied else failure.OK


def choose_policy(name: str, settings: Mapping[str, Any]) -> Policy:
    """Return a policy by name, with settings that override its own.

    Args:
        name: `default` or `paper`.
        settings: values of the command line by name; those of `POLICY_FLAGS` count, unless they are None.

    Raises:
        ConfigError: for an unknown name, or a setting that cannot work.
    """
    if name not in POLICIES:
        raise ConfigError(f"policy {name!r} is unknown; known: {', '.join(POLICIES)}")
    policy = Policy.paper() if name == "paper" else Policy()
    given = {flag.key: settings[flag.key] for flag in POLICY_FLAGS if settings.get(flag.key) is not None}
    if "description_share" in given:
        given["description_share"] = _share(given["description_share"])
    try:
        return replace(policy, **given)
    except ConfigError as error:
        # Named and written as on the command line.
        told = str(error).replace("low_water", "--low-water").replace("description_share", "--description-share")
        raise ConfigError(told.replace("None", NO_SHARE)) from None


def parse_window(text: str) -> int:
    """Return the tokens of a model's window, written as `200000` or `200k`.

    Raises:
        ConfigError: for anything else.
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
        ConfigError: for a text in another form; the core checks the class.
    """
    classes: dict[str, str] = {}
    for text in texts:
        name, sign, value = text.rpartition("=")
        if not (sign and name.strip() and value.strip()):
            raise ConfigError(f"tool class {text!r} is not understood; write NAME=CLASS, such as read=bulk")
        classes[name.strip()] = value.strip()
    return classes


def _share(text: str) -> float | None:
    if text.strip().lower() == NO_SHARE:
        return None
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"description share {text!r} is not a number from 0 to 1, or {NO_SHARE!r}") from None


def _print_json(result: Plan, session: RecordedSession | None) -> None:
    data = result.to_dict()
    data["session"] = session and {
        "name": session.name,
        "source": session.source,
        "problems": [{"line": problem.line, "what": problem.what} for problem in session.problems],
    }
    try:
        # ASCII, because only escapes can print the lone surrogates that JSON may hold.
        try:
            text = json.dumps(data, allow_nan=False)
        except ValueError:
            # Python reads NaN and Infinity, so files may hold them, but JSON does not have them.
            say("warning: the messages hold NaN or Infinity, which JSON does not have; null stands for them")
            text = json.dumps(_finite(data), allow_nan=False)
    except RecursionError:
        raise failure.InputError("the messages are nested too deeply to be printed as JSON") from None
    sys.stdout.write(f"{text}\n")


def _finite(value: Any) -> Any:
    """Return JSON data with null for each number that JSON cannot write."""
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _print_picture(result: Plan, session: RecordedSession | None, limit: int | None) -> None:
    from rich.text import Text

    from wane.cli.terminal import layout, picture
    from wane.cli.terminal.console import stdout_console

    console = stdout_console()
    for line in _read_lines(result, session):
        console.print(line)
    blocks = layout.blocks(result.item_kinds, result.item_tokens, result.episodes, result.visible)
    blocks = [picture.Block(picture.Role.SYSTEM, result.pinned.overhead), *blocks]
    rows = layout.rows(blocks, result.episodes, result.report.policy)
    console.print(picture.titled("What the window holds", picture.episode_table(rows, limit=limit)))
    if result.report.steps:
        steps = layout.step_rows(result.report.steps)
        console.print(picture.titled("What leaves, in this order", picture.step_table(steps, limit=limit)))
    console.print(picture.titled("The window", picture.window_picture(blocks, result.report.budget)))
    told = Text(printable(result.report.explain()))
    told.highlight_words([printable(result.report.shortfall)], "bold red")
    console.print(told)


def _read_lines(result: Plan, session: RecordedSession | None) -> list[str]:
    """Return lines on what was read, and what could not be."""
    inferred = ["Episodes are inferred from tool calls: the agent marked none."] if result.inferred else []
    if session is None:
        return [*inferred, ""] if inferred else []
    from wane.cli.lab.common import held_by_kind, problem_lines

    calls, turns = counted(len(session.calls), "model call"), counted(len(session.user_turns), "turn")
    held = held_by_kind(zip(result.item_kinds, result.item_tokens, strict=True), result.pinned.overhead)
    lines = [f"Session {printable(session.name)} ({session.source}): {calls}, {held}, {turns} of the user."]
    if session.sidechains:
        lines.append(f"{counted(len(session.sidechains), 'session')} of sub-agents left out.")
    return [*lines, *inferred, *problem_lines([session]), ""]
