"""The index of evicted content (R20) in requests: in every format, and the same after every way to go on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conversation.support import (
    DIALECTS,
    Dialect,
    Plain,
    Session,
    Told,
    every_dialect,
    histories,
    is_from_model,
    live,
)
from tests.strategies import policies, times
from wane import Policy
from wane.conversation import Conversation
from wane.conversation.events import Event, PassRan
from wane.core import chars, exact_budget
from wane.core.room import share_of
from wane.formats import get_format

POLICY = Policy(index_share=0.2)
OPENING = "<system-reminder>\\nThis has left your context window"


def work(steps: int = 40) -> Session:
    """A session in chat messages that reads and edits one file after another, with a turn of the user halfway."""
    session: Session = [{"role": "user", "content": "Mend all_modules of the project."}]
    for step in range(steps):
        tool, path = ("edit", f"src/module_{step - 1}.py") if step % 2 else ("read", f"src/module_{step}.py")
        call = {
            "id": f"call_{step}",
            "type": "function",
            "function": {"name": tool, "arguments": json.dumps({"path": path})},
        }
        session += [
            {"role": "assistant", "content": f"Now module_{step}.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call_{step}", "content": f"def function_{step}(): pass\n" * 8},
        ]
        if step == steps // 2:
            session += [{"role": "assistant", "content": "Half is done."}, {"role": "user", "content": "Go on."}]
    return session


def conversation(dialect: Dialect, **settings: Any) -> Conversation[Any]:
    return Conversation(dialect.name, **{"budget": "0.7k", "policy": POLICY, "annotate": "infer", **settings})


def text(format_name: str, messages: list[Any]) -> list[str]:
    """Each message as text, so that equal bytes are equal texts."""
    texts: list[str] = []
    for message in messages:
        parts = get_format(format_name).parts(message)
        texts.append(json.dumps([[part.kind, part.text, part.arguments] for part in parts]))
    return texts


def shown_indexes(run: Conversation[Any], messages: list[Any]) -> list[str]:
    """The indexes in all requests."""
    indexes: list[str] = []
    for view in requests(run, messages):
        indexes += [entry for entry in view if OPENING in entry]
    return indexes


def requests(run: Conversation[Any], messages: list[Any]) -> Iterator[list[str]]:
    """Take messages in one by one, and yield the messages of a request ahead of each answer."""
    for message in messages:
        if is_from_model(run.format.parts(message)):
            yield text(run.format.name, run.request().view)
        run.append(message)
    yield text(run.format.name, run.request().view)


@every_dialect
@times(0.5)
@given(
    session=histories(tasks=True),
    budget=st.integers(1, 5_000),
    policy=policies(),
    share=st.sampled_from((0.02, 0.1, 0.5)),
    usages=st.lists(st.integers(0, 4_000), max_size=8),
)
def test_it_holds_no_more_than_its_share_by_any_count(
    dialect: Dialect, session: Session, budget: int, policy: Policy, share: float, usages: list[int]
) -> None:
    for number, message in enumerate(session):
        if message["role"] == "tool":
            message["content"] += f" src/module_{number}.py" * 40
    messages = dialect.write(session)
    held: list[tuple[int, int, int]] = []

    def note(event: Event) -> None:
        if isinstance(event, PassRan) and event.report.index is not None:
            tokens = chars(event.report.index.text)
            allowed = share_of(event.report.budget_used, share)
            held.append((tokens, run.window.accounting.scale(tokens), allowed))

    run = Conversation(
        dialect.name,
        budget=exact_budget(budget),
        policy=replace(policy, index_share=share),
        tasks=True,
        adapter=Told(messages, usages),
        on_event=note,
    )
    live(run, messages)
    assert all(max(ours, reported) <= allowed for ours, reported, allowed in held)


@every_dialect
def test_it_stands_in_one_place_until_the_next_pass(dialect: Dialect) -> None:
    run = conversation(dialect)
    passes = 0
    before: list[str] = []
    for view in requests(run, dialect.write(work())):
        standing = [entry for entry in view if OPENING in entry]
        report = run.request().report
        assert report is not None
        assert len(standing) == (run.window.index is not None)
        assert report.satisfied
        passes += report.ran
        if not report.ran:
            assert view[: len(before)] == before
        before = view
    assert passes > 3
    assert run.window.index is not None


@every_dialect
def test_it_is_no_part_of_the_history(dialect: Dialect) -> None:
    run = conversation(dialect)
    messages = dialect.write(work())
    assert shown_indexes(run, messages)
    assert text(dialect.name, run.messages) == text(dialect.name, messages)
    assert len(run.window.visible) < run.window.item_count
    assert run.search("This has left your context window").startswith("Nothing matches")


@pytest.mark.quick(2)
@every_dialect
def test_gone_on_in_any_way_it_is_the_same_to_the_byte(dialect: Dialect) -> None:
    messages = dialect.write(work())
    run = conversation(dialect)
    half = len(messages) // 2
    while not is_from_model(run.format.parts(messages[half])):
        half += 1
    views = [*requests(run, messages[:half])]
    followed, restored, branched, switched = (conversation(dialect) for _ in range(4))
    followed.log.follow(run.log.records())
    assert restored.restore(json.loads(json.dumps(run.state())), messages[:half])
    branched = run.branch(half)
    switched.log.follow(run.log.records())
    switched.change(strategy="truncate")
    switched.change(strategy="cwl")
    expected = [*requests(run, messages[half:])]
    assert any(OPENING in entry for entry in views[-1])
    assert views[-1] == expected[0]
    for other in (followed, restored, branched, switched):
        assert [*requests(other, messages[half:])] == expected


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_switched_on_in_the_middle_it_tells_of_what_left_before(share: float) -> None:
    run = conversation(DIALECTS[0], policy=Policy(index_share=share))
    messages = work(24)
    assert bool(shown_indexes(run, messages[:31])) == bool(share)
    view = "".join(text("openai", run.view))
    left = [f"module_{step}" for step in range(10) if f"module_{step}." not in view]
    run.change(policy=POLICY)
    last = [*requests(run, messages[31:])][-1]
    index = next(entry for entry in last if OPENING in entry)
    assert sum(name in index for name in left) > 3
    run.change(policy=Policy(index_share=0.0))
    [*requests(run, [message for message in work() if message["role"] != "tool" and "tool_calls" not in message])]
    run.change(budget="0.5k")
    assert not any(OPENING in entry for entry in text("openai", run.request().view))


def test_a_format_that_writes_no_messages_has_none() -> None:
    run: Conversation[Any] = Conversation(Plain(), budget="0.7k", policy=POLICY, annotate="infer")
    assert run.settings.policy.index_share == 0
    run.change(policy=POLICY)
    assert run.settings.policy.index_share == 0
    for message in work():
        if message["role"] == "assistant":
            assert run.request().view
        run.append(message)
    assert run.window.index is None
    assert run.evicted


@pytest.mark.parametrize("recall", [False, True])
def test_it_names_the_tool_only_to_a_model_that_has_it(recall: bool) -> None:
    run = conversation(DIALECTS[0], recall=recall)
    indexes = shown_indexes(run, work())
    assert indexes
    assert all(("`recall`" in index) == recall for index in indexes)
