"""What the journal's tests share: strategies for records, a clock, and processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

import wane.journal
from tests.strategies import policies
from wane.core import Level, Mark, Step
from wane.journal import (
    ConfigRecord,
    Header,
    Journal,
    MessageRecord,
    NoteRecord,
    PassRecord,
    PlacedMark,
    Record,
    StrategyRecord,
    UsageRecord,
)
from wane.journal.records import VERSION, ReminderRecord, RequestRecord

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


def said(text: str) -> MessageRecord:
    """The record of a user's turn."""
    return MessageRecord(message={"role": "user", "content": text})


def python(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """Start Python with this source tree, and `arguments`."""
    environ = {**os.environ, "PYTHONPATH": str(SOURCE)}
    return subprocess.Popen([sys.executable, *arguments], env=environ, stdout=subprocess.PIPE, **options)


def in_a_child(act: Callable[[], object]) -> str:
    """Run `act` in a forked process and return what it raised, as text; empty if nothing."""
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
    with os.fdopen(receiver, "rb") as stream:
        text = stream.read().decode()
    os.waitpid(child, 0)
    return text


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
records: st.SearchStrategy[Record] = st.one_of(
    st.builds(
        MessageRecord,
        message=objects,
        marks=st.lists(st.builds(PlacedMark, item=counts, mark=st.builds(Mark, name=names)), max_size=3).map(tuple),
        at=moments,
    ),
    st.builds(
        PassRecord,
        items=counts,
        budget=counts,
        tokens_before=counts,
        tokens_after=counts,
        satisfied=st.booleans(),
        overflowed=st.booleans(),
        trace=st.lists(steps, max_size=3).map(tuple),
        at=moments,
    ),
    st.builds(
        UsageRecord,
        items=counts,
        input_tokens=counts,
        output_tokens=counts,
        cache_read_tokens=counts,
        cache_write_tokens=counts,
        cost=st.none() | st.floats(0, 1e6),
        model=texts,
        anchors=st.booleans(),
        at=moments,
    ),
    st.builds(
        ConfigRecord,
        budget=counts,
        policy=policies(),
        tool_classes=st.dictionaries(names, st.sampled_from(("bulk", "artifact", "durable")), max_size=3),
        overhead=counts,
        required=counts,
        strategy=names,
        annotate=st.sampled_from(("model", "infer")),
        at=moments,
    ),
    st.builds(ReminderRecord, items=counts, text=texts, at=moments),
    st.builds(
        RequestRecord,
        url=texts,
        layer=st.sampled_from(("http", "model")),
        size=counts,
        digest=texts,
        salt=texts,
        chain=texts,
        pieces=st.none() | st.lists(json_values, max_size=4).map(tuple),
        deleted=moments,
        at=moments,
    ),
    st.builds(StrategyRecord, items=counts, strategy=names, done=objects, at=moments),
    st.builds(NoteRecord, topic=texts, data=objects, at=moments),
)
headers = st.builds(
    Header, version=st.just(VERSION), id=names, created=moments.filter(bool), cwd=texts, format=names, wane=names
)
