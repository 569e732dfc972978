"""`wane plan`: what a pass over a recorded session would evict, and why."""

from __future__ import annotations

import json
import math
import os
import sys
from typing import TYPE_CHECKING, Any, Final

from wane.budgets import AUTO, is_share, parse_budget_or_auto
from wane.cli import failure
from wane.cli.flag_values import by_tool
from wane.cli.lab.arguments import Messages, read_one, usable_counter
from wane.cli.shared_flags import DEFAULT_WINDOW, PRICE
from wane.cli.terminal.text import count_noun, plain_console, printable, say
from wane.cli.top_commands import PlanOptions
from wane.core import parse_budget
from wane.lab.readers import shown_path
from wane.planning import Plan, plan, plan_items
from wane.tuned import usable_tuned
from wane.words import PURPOSES

if TYPE_CHECKING:
    from wane.lab.recorded_session import RecordedSession

_ROWS: Final = 40


def run_plan(options: PlanOptions) -> int:
    # Check the options before a file that may be long is read.
    window = options.window
    of_models_window = window is None and is_share(options.budget)
    if of_models_window:
        window = DEFAULT_WINDOW
    budget = parse_budget_or_auto(options.budget, window=window)
    settings: dict[str, Any] = {
        "budget": AUTO if budget is None else budget,
        "window": window,
        "policy": options.policy_settings.applied_to(options.policy),
        "tool_classes": by_tool(options.tool_classes),
        "annotate": options.annotate,
        "tasks": options.tasks,
        "tuned": usable_tuned(os.environ, say) if budget is None else None,
    }
    counter = usable_counter(options.counter)
    source = read_one(options.file, options.format, options.max_unpacked)
    settings["marks"] = source.marks
    if isinstance(source, Messages):
        session = None
        result = plan(source.data, format=source.format, counter=counter, overhead=source.overhead, **settings)
    else:
        from wane.lab.counting import count

        session, material = source, count(source, counter)
        if of_models_window:
            from wane.lab.replaying.strategy_replay import Pricing

            own = Pricing.of_recording(session, Pricing.of(PRICE)).own_window
            if window := session.window or own:
                settings |= {"window": window, "budget": parse_budget(options.budget, window=window)}
        history = list(zip(material.items, source.parts, strict=True))
        result = plan_items(history, overhead=material.overhead, **settings)
    if not result.item_tokens:
        raise failure.InputError(f"{shown_path(options.file)} holds no messages")
    if options.as_json:
        _print_json(result, session)
    else:
        _print_picture(result, session, None if options.full else _ROWS)
    if options.exit_code and not result.satisfied:
        return failure.OVER_BUDGET
    return failure.OK


def _print_json(result: Plan, session: RecordedSession | None) -> None:
    data: dict[str, Any] = result.to_dict() | {"session": None}
    if session is not None:
        problems = [{"line": problem.line, "what": problem.what} for problem in session.problems]
        data["session"] = {"name": session.name, "source": session.source, "problems": problems}
    try:
        # ASCII, because only escapes can print the lone surrogates that JSON may hold.
        try:
            text = json.dumps(data, allow_nan=False)
        except ValueError:
            # Python reads NaN and Infinity, so they get here from files, but JSON does not have them.
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
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _print_picture(result: Plan, session: RecordedSession | None, limit: int | None) -> None:
    from rich.text import Text

    from wane.cli.terminal import layout, picture

    console = plain_console()
    for line in (PURPOSES["plan"], "", *_read_lines(result, session)):
        console.print(line)
    blocks = layout.blocks(result.item_kinds, result.item_tokens, result.episodes, result.visible)
    blocks = [picture.Band(picture.Role.SYSTEM, result.pinned.overhead), *blocks]
    if (index := result.report.index) is not None:
        blocks.append(picture.Band(picture.Role.INDEX, index.tokens, new=True))
    rows = layout.rows(blocks, result.episodes, result.report.policy)
    console.print(picture.add_title("What the window holds", picture.EpisodeTable(rows, limit)))
    if result.report.steps:
        steps = layout.step_table(result.report.steps, limit=limit)
        console.print(picture.add_title("What leaves, in this order", steps))
    console.print(picture.add_title("The window", picture.WindowPicture(blocks, result.report.budget_used)))
    explanation = Text(printable(result.report.explain()))
    explanation.highlight_words([printable(result.report.shortfall)], "bold red")
    console.print(explanation)
    if result.auto_budget is not None:
        from wane.lab.replaying.verdict import capital

        console.print(f"\n{capital(str(result.auto_budget))}.")
    if result.report.ran and result.room.remark:
        console.print(f"\n{result.room.remark}", style="bold")
    console.print(f"\n{picture.WORDS_HINT}", style="dim")


def _read_lines(result: Plan, session: RecordedSession | None) -> list[str]:
    """Return lines on what was read and what could not be read, and an empty one after them."""
    lines = []
    if session is not None:
        from wane.cli.lab.common import held_by_kind, problem_lines

        calls, turns = count_noun(len(session.calls), "model call"), count_noun(len(session.user_turns), "turn")
        tokens = held_by_kind(zip(result.item_kinds, result.item_tokens, strict=True), result.pinned.overhead)
        lines.append(f"Session {printable(session.name)} ({session.source}): {calls}, {tokens}, {turns} of the user.")
        if session.sidechains:
            lines.append(f"{count_noun(len(session.sidechains), 'session')} of sub-agents left out.")
    if result.inferred:
        lines.append("Episodes are inferred from tool calls: the agent marked none.")
    if session is not None:
        lines += problem_lines([session])
    return [*lines, ""] if lines else []
