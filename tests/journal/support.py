"""What the journal's tests share: strategies for records, a clock, and processes of their own."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import strategies as st

import wane.journal
from tests.strategies import policies
from wane.core import EvictedIndex, Level, Mark, Room, Step
from wane.journal import Header, Journal, MessageRecord, PlacedMark, Record
from wane.journal.records import RECORDS, VERSION, SamplingUsage, UsageParts

T = TypeVar("T")

NOON = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)
SOURCE = Path(wane.journal.__file__).parents[2]


class Clock:
    """A clock that a second passes on whenever it is read."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


def begin(directory: Path, records: Iterable[Record] = (), **options: Any) -> Path:
    """Write a session and return its file."""
    options = {"cwd": directory, "message_format": "openai", "clock": Clock(), "fsync": False} | options
    with Journal.create(directory, **options) as journal:
        for record in records:
            journal.append(record)
    return journal.path


def user_record(text: str) -> MessageRecord:
    """The record of a user's turn."""
    return MessageRecord(message={"role": "user", "content": text})


def python(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """Start Python with this source tree, and `arguments`."""
    environ = {**os.environ, "PYTHONPATH": str(SOURCE)}
    return subprocess.Popen([sys.executable, *arguments], env=environ, stdout=subprocess.PIPE, **options)


LONGEST = 120.0
"""Seconds that a forked process may take."""


def in_a_child(act: Callable[[], object]) -> str:
    """Run `act` in a forked process and return what it raised, as text; empty if nothing.

    A lock that another thread holds at the fork stays locked in the child, which is then ended after a while.
    """
    receiver, sender = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            act()
        except BaseException as error:
            os.write(sender, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(sender)
    try:
        with os.fdopen(receiver, "rb") as stream:
            ended, _, _ = select.select([stream], [], [], LONGEST)
            assert ended, "the child hangs"
            return stream.read().decode()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


# Strategies

# Of surrogates, a high one right before a low one is JSON's way to write one character: `texts` has no such pair.
texts = st.text(st.characters(exclude_categories=()), max_size=30).filter(
    lambda text: not any("\ud800" <= a < "\udc00" <= b < "\ue000" for a, b in pairwise(text))
)
counts = st.integers(0, 10**9)
names = st.text(min_size=1, max_size=20, alphabet="abc-Ü 7\n")
moments = st.none() | st.datetimes(timezones=st.just(UTC)).map(
    lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(texts, json_values, max_size=5)
steps = st.builds(
    Step,
    episode=st.none() | names,
    number=counts,
    level=st.sampled_from(Level),
    tokens_before=counts,
    tokens_after=counts,
    removed=st.lists(counts, max_size=5).map(tuple),
)
marks = st.builds(PlacedMark, item=counts, mark=st.builds(Mark, name=names))
samplings = st.builds(SamplingUsage, texts, counts, counts, counts, counts, counts, texts)
BY_TYPE: dict[object, st.SearchStrategy[Any]] = {
    "int": counts,
    "bool": st.booleans(),
    "str": texts,
    "float | None": st.none() | st.floats(0, 1e6),
    "datetime": moments.filter(bool),
    "datetime | None": moments,
    "Mapping[str, Any]": objects,
    "Layer": st.sampled_from(("http", "model")),
    "Policy": policies(),
    "tuple[PlacedMark, ...]": st.lists(marks, max_size=3).map(tuple),
    "tuple[Step, ...]": st.lists(steps, max_size=3).map(tuple),
    "tuple[str, ...]": st.lists(texts, max_size=3).map(tuple),
    "tuple[Any, ...] | None": st.none() | st.lists(json_values, max_size=4).map(tuple),
    "EvictedIndex | None": st.none() | st.builds(EvictedIndex, texts, counts, counts),
    "Room | None": st.none() | st.builds(Room, counts, counts, counts, min_room=st.floats(0, 1)),
    "int | None": st.none() | counts,
    "Mapping[str, str]": st.dictionaries(names, st.sampled_from(("bulk", "artifact", "durable")), max_size=3),
    "UsageParts | None": st.none()
    | st.builds(
        UsageParts,
        st.none() | samplings,
        st.lists(samplings, max_size=2).map(tuple),
        st.floats(0, 1e6),
        st.booleans(),
        st.floats(0, 1e6),
    ),
    "Literal['model', 'infer', 'host']": st.sampled_from(("model", "infer", "host")),
    "Choice": st.sampled_from(("", "keep", "drop")),
}
"""What the fields of records hold, by their types."""


def any_of(cls: type[T]) -> st.SearchStrategy[T]:
    return st.builds(cls, **{spec.name: BY_TYPE[str(spec.type).replace('"', "'")] for spec in fields(cls)})  # type: ignore[arg-type]


records: st.SearchStrategy[Record] = st.one_of(*map(any_of, RECORDS.values()))
headers = any_of(Header).map(lambda header: replace(header, version=VERSION))
