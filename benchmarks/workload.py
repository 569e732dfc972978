"""Synthetic sessions: one that marks its work well, and two that leave it to the budget."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count

from wane import Item, Kind

RESULT_TOKENS = 400
CALL_TOKENS = 20
USER_EVERY = 20_000  # messages; user turns are never evicted, so a million messages must not be mostly theirs
NOTICE_TOKENS = 100
NOTICE_EVERY = 10  # exchanges


def session(messages: int, *, first_episode: int = 0, episode: int = 10) -> Iterator[list[Item]]:
    """Yield the items of one message after another: small explorations, each followed by an act that builds on it.

    `first_episode`: number in the first episode's name, to go on with a session of fewer.
    `episode`: tool calls in an episode.
    """
    yield [Item(Kind.SYSTEM, 200)]
    made, number = 1, first_episode
    while made < messages:
        for exchange in _task(number, episode):
            if made % USER_EVERY < len(exchange):
                yield [Item(Kind.USER, 40)]
                made += 1
            yield from exchange
            made += len(exchange)
        number += 1


def never_ends(messages: int, *, first_episode: int = 0) -> Iterator[list[Item]]:
    """Yield the items of one message after another of an agent that starts an act and never ends it (R16).

    It says nothing beside its calls: texts of an active episode stay (R13), and would fill the budget in the end.

    `first_episode`: 0 for the beginning; else a number to go on with, larger than that of any message before.
    """
    yield [Item(Kind.SYSTEM, 200)]
    if not first_episode:
        yield [Item(Kind.USER, 40)]
        yield from _delimiter("start", action="start", name="all-of-it", type="act", dependencies=[])
    yield from _unmarked_session(messages, first_episode)


def never_starts(messages: int, *, first_episode: int = 0) -> Iterator[list[Item]]:
    """Yield the same of one that marks nothing (R5)."""
    yield [Item(Kind.SYSTEM, 200)]
    if not first_episode:
        yield [Item(Kind.USER, 40)]
    yield from _unmarked_session(messages, first_episode)


def _unmarked_session(messages: int, first: int) -> Iterator[list[Item]]:
    made = 0
    for number in count(first):
        tools = ("grep", "read_file", "edit_file", "shell")
        call, result = exchange(f"call-{number}", tools[number % len(tools)])
        yield call[-1:]
        yield result
        made += 2
        if number % NOTICE_EVERY == 0:
            yield [Item(Kind.NOTICE, NOTICE_TOKENS)]
            made += 1
        if made >= messages:
            return


def _task(number: int, episode: int) -> Iterator[list[list[Item]]]:
    look, fix = f"look-{number}", f"fix-{number}"
    yield _delimiter(f"{look}-s", action="start", name=look, type="expl")
    for call in range(episode):
        yield exchange(f"{look}-{call}", ("grep", "read_file")[call % 2])
    yield [[Item(Kind.NOTICE, NOTICE_TOKENS)]]
    yield _delimiter(f"{look}-e", action="end", name=look, description="where the thing is and how it works")
    yield _delimiter(f"{fix}-s", action="start", name=fix, type="act", dependencies=[look])
    for call in range(episode):
        yield exchange(f"{fix}-{call}", ("edit_file", "shell")[call % 2])
    yield _delimiter(f"{fix}-e", action="end", name=fix)


def exchange(call_id: str, tool: str, arguments: str | None = None, tokens: int = RESULT_TOKENS) -> list[list[Item]]:
    """One model call and its tool result, as two messages."""
    call = Item(Kind.CALL, CALL_TOKENS, call_id, tool, arguments)
    return [[Item(Kind.TEXT, CALL_TOKENS), call], [Item(Kind.RESULT, tokens, call_id)]]


def _delimiter(call_id: str, **arguments: object) -> list[list[Item]]:
    return exchange(call_id, "delimiter", json.dumps(arguments), tokens=8)
