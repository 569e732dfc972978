"""Turns the core's objects into what the picture shows: blocks, rows, and the reason for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final, TypeVar

from rich.table import Table
from rich.text import Text

from wane.cli.terminal.picture import Band, Role, Row, elide_rows
from wane.cli.terminal.tables import plain_table
from wane.cli.terminal.text import printable
from wane.core import ContextWindow, Episode, EpisodeType, Item, Kind, Level, Policy, Step
from wane.core.pass_report import brief
from wane.words import name_level

_FIXED: Final = {Kind.SYSTEM: Role.SYSTEM, Kind.USER: Role.USER, Kind.NOTICE: Role.NOTICE}
_KeyT = TypeVar("_KeyT")
_NEVER: Final = "never evicted"

# Rows of tokens in no episode's row: their role, whether they are outside episodes, their name, and why they stay.
_FIXED_ROWS: Final = (
    (Role.SYSTEM, True, "(system)", _NEVER),
    (Role.NOTICE, True, "(opening and standing notices)", _NEVER),
    (Role.USER, True, "(user turns)", _NEVER),
    (Role.IMPLICIT, True, "(outside episodes)", "in no episode"),
    (Role.NOTICE, False, "(notices)", "evicted with their episodes"),
    (Role.INDEX, True, "(index of what has left)", "written by each pass"),
)


def name_of(number: int, name: str | None) -> str:
    """Return what an episode is called: its name in brief, or its number if it has none (R5)."""
    return f"(unmarked {number})" if name is None else brief(name)


def role_of(episode: Episode) -> Role:
    if episode.implicit:
        return Role.PROLOGUE if episode.prologue else Role.IMPLICIT
    return Role(episode.type.value)


def blocks(
    kinds: Sequence[Kind],
    tokens: Sequence[int],
    episodes: Iterable[Episode],
    visible: Iterable[int],
    instead: Mapping[int, int] | None = None,
) -> list[Band]:
    """Return a history as blocks, in order, from the kind and the tokens of each item.

    The visible items stay; `instead` has, by evicted item, the tokens of its substitute.
    """
    owners: list[Episode | None] = [None] * len(kinds)
    for episode in episodes:
        for first, stop in episode.spans:
            owners[first:stop] = [episode] * (stop - first)
    in_view = bytearray(len(kinds))
    for index in visible:
        in_view[index] = 1
    keys: list[tuple[Role, bool, int | None]] = []
    sizes: list[int] = []

    def append(role: Role, size: int, stays: bool, number: int | None) -> None:
        if keys and keys[-1] == (role, stays, number):
            sizes[-1] += size
        else:
            keys.append((role, stays, number))
            sizes.append(size)

    for index, owner in enumerate(owners):
        role = Role.IMPLICIT if owner is None else role_of(owner)
        role = _FIXED.get(kinds[index], role)
        number = None if owner is None else owner.number
        substitute = instead.get(index, 0) if instead else 0
        if substitute:
            append(role, substitute, True, number)
        append(role, tokens[index] - substitute, bool(in_view[index]), number)
    return [Band(role, size, stays, number) for (role, stays, number), size in zip(keys, sizes, strict=True)]


def view_blocks(
    items: Sequence[Item], episodes: Iterable[Episode], window: ContextWindow, removed: Sequence[int], *, done: bool
) -> list[Band]:
    """Return a window's view as blocks, including what a pass removes; `done` says that it has already run.

    The blocks are in the tokens of the window's totals, by the provider's last report, and add up to them exactly: to
    those before and after the pass, and after each step of it, unless the provider counts less than half of them.

    Args:
        items: the items of the history.
        episodes: the episodes.
        window: the window.
        removed: the items that the pass removes, in the order of its steps.
        done: whether it has run.
    """
    visible = set(window.visible)
    before, after = (visible.union(removed), visible) if done else (visible, visible.difference(removed))
    tokens = [0] * len(items)
    estimate = window.overhead
    total = window.accounting.total_of(estimate)
    parts = [Band(Role.SYSTEM, max(0, total))]
    index: list[Band] = []
    if window.index is not None:
        estimate += window.index.tokens
        grown = window.accounting.total_of(estimate)
        index.append(Band(Role.INDEX, grown - total))
        total = grown
    # What stays, then what leaves, the last first: so each total is the sum of all blocks below it.
    for number in (*sorted(after), *reversed([number for number in removed if number in before])):
        estimate += items[number].tokens
        grown = window.accounting.total_of(estimate)
        tokens[number] = grown - total
        total = grown
    history = blocks([item.kind for item in items], tokens, episodes, after)
    parts += [block for block in history if block.tokens]
    return parts + index


def index_block(window: ContextWindow) -> list[Band]:
    """Return the block of the index of evicted content (R20); no block if there is no index."""
    if window.index is None:
        return []
    return [Band(Role.INDEX, window.accounting.scale(window.index.tokens))]


def rows(parts: Sequence[Band], episodes: Sequence[Episode], policy: Policy, *, done: bool = True) -> list[Row]:
    """Return the table of a window: what belongs to no episode, then the episodes in order of start, under their tasks.

    The episodes are as they are after the pass; without `done`, the pass is only the next one and has not run.
    """
    of_episodes = episode_rows(parts, in_tasks(episodes), policy, done=done)
    return fixed_rows(parts) + [row for row in of_episodes if is_visible(row)]


def in_tasks(episodes: Iterable[Episode]) -> list[Episode]:
    """Return episodes in order of start, but each task with what it holds right behind it (R17)."""

    def path(episode: Episode) -> list[int]:
        return [around.number for around in reversed(list(episode.lineage()))]

    return sorted(episodes, key=path)


def is_visible(row: Row) -> bool:
    """Return whether a table shows an episode's row; the tokens of unmarked notices are in the notices' row."""
    return bool(row.before) or row.role not in (Role.IMPLICIT, Role.PROLOGUE)


def fixed_rows(parts: Iterable[Band]) -> list[Row]:
    """Return the rows of system items and user turns (R13), of notices (R15), and of work in no episode."""
    tokens_by_key = _before_after(((part.role, part.episode is None), part) for part in parts)
    fixed = []
    for role, outside, name, reason in _FIXED_ROWS:
        before, after = tokens_by_key.get((role, outside), (0, 0))
        if before or after:
            fixed.append(Row(role, name, before, after, why=reason))
    return fixed


def episode_rows(parts: Iterable[Band], episodes: Sequence[Episode], policy: Policy, *, done: bool = True) -> list[Row]:
    """Return the rows of episodes, in their order, without the notices in them, which have a row of their own."""
    tokens = held_by(part for part in parts if part.role is not Role.NOTICE)
    needed = dependents(episodes)
    rows = []
    for episode in episodes:
        before, after = tokens.get(episode.number, (0, 0))
        name, reason = name_of(episode.number, episode.name), why(episode, needed, policy)
        if episode.given_up:
            name += " (abandoned)"
        # Overflow evicts without an episode reaching a level (R16).
        if done and after < before and not episode.removed and episode.level is Level.NONE:
            reason += ", partly evicted"
        builds_on = tuple(map(brief, episode.dependencies))
        level, depth = name_level(episode.level.value), episode.depth
        rows.append(Row(role_of(episode), name, before, after, level, reason, builds_on, depth=depth))
    return rows


def held_by(parts: Iterable[Band]) -> dict[int, tuple[int, int]]:
    """Return the tokens of each episode before and after a pass, by its number, its notices included."""
    return _before_after((part.episode, part) for part in parts if part.episode is not None)


def step_table(steps: Sequence[Step], *, limit: int | None = None) -> Table:
    """Return the table of what a pass evicted, in order; consecutive steps of one episode are one row."""
    table = plain_table("step", "*episode", "*levels", ">freed", ">view")
    runs = [list(group) for _, group in groupby(enumerate(steps, start=1), lambda pair: pair[1].number)]
    for run in elide_rows(runs, limit):
        if isinstance(run, int):
            table.add_row("", Text(f"({run:,} more)", style="dim"))
            continue
        (number, first), (end, last) = run[0], run[-1]
        table.add_row(
            f"{number}" if number == end else f"{number}-{end}",
            printable(name_of(first.number, first.episode)),
            ", ".join(dict.fromkeys(name_level(step.level.value) for _, step in run)),
            f"{first.tokens_before - last.tokens_after:,}",
            f"{last.tokens_after:,}",
        )
    return table


def dependents(episodes: Iterable[Episode]) -> dict[str, list[str]]:
    """Return the acts that still hold each exploration, by its name (R7)."""
    holding: dict[str, list[str]] = {}
    for episode in episodes:
        if not episode.removed:
            for name in episode.dependencies:
                holding.setdefault(name, []).append(name_of(episode.number, episode.name))
    return holding


def why(episode: Episode, needed: Mapping[str, Sequence[str]], policy: Policy) -> str:
    """Return in a few words why an episode stays or leaves (R6, R7, R11 to R13)."""
    if episode.choice == "keep":
        return "kept by you"
    if episode.choice == "drop" and not episode.removed and episode.settled and not needed.get(episode.name or ""):
        return "let go by you"
    if episode.removed:
        if not episode.tokens:
            return "gone"
        if episode.level is Level.REMOVE and not episode.implicit and episode.type is not EpisodeType.ACT:
            return "description stays"
        return "held by what needs it"
    if episode.prologue and policy.prologue == "whole":
        return _NEVER
    if episode.is_task:
        return "until its episodes have left" if episode.closed else "open"
    if not episode.closed:
        return "not finished" if episode.implicit else "active"
    if episode.open_calls:
        return "waits for a result"
    if not episode.settled:
        return "not yet fully seen by the model"
    if acts := needed.get(episode.name or ""):
        return f"needed by {', '.join(acts)}"
    if episode.abandoned:
        return "abandoned: goes first"
    return "may go" if episode.level is Level.NONE else "may go further"


def _before_after(parts: Iterable[tuple[_KeyT, Band]]) -> dict[_KeyT, tuple[int, int]]:
    """Return the tokens before and after a pass, by key."""
    totals: dict[_KeyT, tuple[int, int]] = {}
    for key, part in parts:
        before, after = totals.get(key, (0, 0))
        if not part.new:
            before += part.tokens
        if part.stays:
            after += part.tokens
        totals[key] = before, after
    return totals
