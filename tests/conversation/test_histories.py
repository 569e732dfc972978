"""The same history however it comes: message by message, at once, as other objects; continued, forked or replaced."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.conversation.support import (
    Dialect,
    Log,
    Session,
    Told,
    answer_message,
    every_dialect,
    fresh,
    histories,
    is_answer,
    live,
    parts_of,
    standing,
    turns,
    user,
    window_after,
)
from tests.strategies import Mark, Turn, policies, times, write
from wane import ConfigError, HistoryError, Kind, Policy
from wane.conversation import Adapter, Conversation
from wane.conversation.events import HistoryForked, HistoryReplaced, MessageTaken, PassRan
from wane.core import exact_budget
from wane.formats import Part

USAGES = st.lists(st.sampled_from((0, 0, 50, 200, 700)), max_size=4)
BUDGETS = st.integers(1, 400)


@pytest.mark.quick(2)
@every_dialect
@times(0.7)
@given(session=histories(), budget=BUDGETS, policy=policies(), usages=USAGES)
def test_it_comes_to_what_the_core_comes_to_however_the_history_is_given(
    dialect: Dialect, session: Session, budget: int, policy: Policy, usages: list[int]
) -> None:
    messages = dialect.write(session)
    told = Told(messages, usages)

    def make() -> Conversation[Any]:
        return Conversation(dialect.name, budget=exact_budget(budget), policy=policy, adapter=told)

    lived, at_once, appended, extended = make(), make(), make(), make()
    live(lived, messages)
    at_once.host.ingest(messages)
    for message in messages:
        appended.append(message)
    extended.extend(messages)
    core = window_after(dialect.name, messages, budget, policy, told)
    wanted = standing(lived)
    assert lived.window.visible == core.visible
    assert lived.tokens == core.tokens
    assert standing(at_once) == standing(appended) == standing(extended) == wanted


# One message loses its first call, a start that is refused, and keeps its reasoning and its second call.
NAMED_TWICE = Turn(reasoning=1, calls=(Mark(way="again"), Mark()))
HALF_GONE = write([Turn(calls=(Mark(),)), Turn(calls=(Mark(),)), NAMED_TWICE, Turn(text=1)])


@every_dialect
@times(0.4)
@given(session=histories(), budget=BUDGETS)
@example(session=HALF_GONE, budget=1)
def test_the_view_is_a_part_of_the_history_with_every_users_word(
    dialect: Dialect, session: Session, budget: int
) -> None:
    messages = dialect.write(session)
    conversation = Conversation(dialect.name, budget=exact_budget(budget))
    conversation.host.ingest(messages)
    view = without_needs(parts_of(conversation, conversation.request().view))
    whole = without_needs(parts_of(conversation, messages))
    shown = [whole[index] for index in conversation.window.visible]
    # What is nothing but reasoning is not sent (R9).
    assert is_part(view, shown)
    assert all(part.kind is Kind.REASONING for part in missing(view, shown))
    assert [part for part in view if part.kind is Kind.USER] == [part for part in whole if part.kind is Kind.USER]
    mine = {id(message) for message in messages}
    cut = [m for m in conversation.request().view if id(m) not in mine]
    assert all(conversation.format.parts(message) for message in cut)


@every_dialect
@times(0.4)
@given(session=histories(), budget=BUDGETS)
def test_asking_again_and_ingesting_again_changes_nothing(dialect: Dialect, session: Session, budget: int) -> None:
    log = Log()
    messages = dialect.write(session)
    conversation = Conversation(dialect.name, budget=exact_budget(budget), on_event=log)
    live(conversation, messages)
    before, told = standing(conversation), len(log)
    for again in (messages, list(messages), fresh(messages)):
        change = conversation.host.ingest(again)
        assert (change.kept, change.dropped, change.added) == (len(messages), 0, 0)
        assert change.continued
        assert standing(conversation) == before
    assert len(log) == told


@every_dialect
@times(0.4)
@given(session=histories(), budget=BUDGETS, data=st.data())
def test_a_history_read_from_elsewhere_is_a_continuation(
    dialect: Dialect, session: Session, budget: int, data: st.DataObject
) -> None:
    messages = dialect.write(session)
    cut = data.draw(st.integers(0, len(messages)))
    log = Log()
    conversation, plain = (
        Conversation(dialect.name, budget=exact_budget(budget), on_event=log),
        Conversation(dialect.name, budget=exact_budget(budget)),
    )
    live(conversation, messages[:cut])
    live(conversation, fresh(messages), known=cut)
    live(plain, messages[:cut])
    live(plain, messages, known=cut)
    assert standing(conversation) == standing(plain)
    assert not log.of(HistoryForked)
    assert not log.of(HistoryReplaced)


def without_needs(parts: list[Part]) -> list[Part]:
    """The parts without their needs: these are offsets, which change when a part between two others leaves."""
    return [replace(part, needs=()) for part in parts]


def is_part(some: list[Part], whole: list[Part]) -> bool:
    rest = iter(whole)
    return all(part in rest for part in some)


def missing(some: list[Part], whole: list[Part]) -> list[Part]:
    """What of a whole is not in a part of it, each as often as it is not."""
    left = list(whole)
    for part in some:
        left.remove(part)
    return left


# Forks


@pytest.mark.quick(2)
@every_dialect
@times(0.5)
@given(session=histories(), other=histories(), budget=BUDGETS, usages=USAGES, data=st.data())
def test_a_fork_is_what_a_run_that_never_knew_better_would_be(
    dialect: Dialect, session: Session, other: Session, budget: int, usages: list[int], data: st.DataObject
) -> None:
    """It goes on from where the histories part, with all that was evicted up to there still out."""
    messages = dialect.write(session)
    cuts = [n for n in range(len(messages) + 1) if n == 0 or not pending(dialect, messages[:n])]
    cut = data.draw(st.sampled_from(cuts))
    branch = [*messages[:cut], *dialect.write(rename_ids(other))]
    told = Told([*messages, *branch[cut:]], usages)
    log = Log()
    forked = Conversation(dialect.name, budget=exact_budget(budget), adapter=told, on_event=log)
    plain = Conversation(dialect.name, budget=exact_budget(budget), adapter=told)
    live(forked, messages)
    live(plain, messages[:cut])
    change = forked.host.ingest(branch)
    live(plain, branch, known=cut)
    assert standing(forked) == standing(plain)
    shared = len(messages) if branch[: len(messages)] == messages else common(dialect, messages, branch)
    known = shared == len(messages)
    answers = any(is_answer(dialect.name, message) for message in messages[:shared])
    assert change.kept == (shared if answers or known else 0)
    assert change.dropped == len(messages) - change.kept
    assert change.added == len(branch) - change.kept
    assert log.of(HistoryForked) == ([HistoryForked(shared)] if change.forked else [])
    assert bool(log.of(HistoryReplaced)) == change.replaced


def pending(dialect: Dialect, messages: list[Any]) -> bool:
    """Whether calls wait for their results at the end."""
    parts = [part for m in messages for part in Conversation(dialect.name).format.parts(m)]
    return sum(part.kind is Kind.CALL for part in parts) != sum(part.kind is Kind.RESULT for part in parts)


def rename_ids(session: Session) -> Session:
    """The same with other ids of calls, and another beginning."""
    text = json.dumps(session).replace('"id": "', '"id": "f-').replace('"tool_call_id": "', '"tool_call_id": "f-')
    return [{"role": "user", "content": "Another way."}, *json.loads(text)]


def common(dialect: Dialect, one: list[Any], other: list[Any]) -> int:
    parts = Conversation(dialect.name).format.parts
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if parts(a) != parts(b)), min(len(one), len(other)))


LONG = turns(12)


def test_what_was_evicted_stays_out_of_a_fork_whatever_the_budget_is_now() -> None:
    conversation = Conversation(budget="0.5k", policy=Policy(low_water=0.5))
    live(conversation, LONG[:16])
    evicted = set(range(16)) - set(conversation.window.visible)
    assert evicted
    live(conversation, LONG, known=16)
    conversation.change(budget=100_000)
    change = conversation.host.ingest([*LONG[:16], user("Instead.")])
    assert change.forked
    assert not evicted & set(conversation.window.visible)
    assert conversation.settings.budget == 100_000


def test_a_branch_goes_on_beside_the_first() -> None:
    conversation = Conversation(budget="0.5k")
    live(conversation, LONG)
    before = standing(conversation)
    branch = conversation.branch(16)
    assert branch.length == 16
    branch.host.ingest([*LONG[:16], user("Instead."), answer_message("y")])
    assert branch.request().view[-1] == answer_message("y")
    conversation.host.ingest([*LONG, user("On.")])
    assert standing(conversation.branch(len(LONG))) == before
    assert conversation.branch(1).messages == LONG[:1]
    assert conversation.branch().messages == conversation.messages
    for count in (-1, 99, "2"):
        with pytest.raises(ConfigError, match=rf"cannot have {count!r} messages; give a number from 0 to 25"):
            conversation.branch(count)  # type: ignore[arg-type]


def test_a_history_of_which_only_the_beginning_is_known_is_another_one() -> None:
    log = Log()
    conversation = Conversation(budget="0.5k", on_event=log)
    conversation.host.ingest([user("One."), user("Two.")])
    assert conversation.host.ingest([user("One."), user("Three.")]).replaced
    assert conversation.messages == [user("One."), user("Three.")]
    taken = [event.message["content"] for event in log.of(MessageTaken)]
    assert taken == ["One.", "Two.", "One.", "Three."]


# Identity


class Ids(Adapter[dict[str, Any]]):
    def key(self, message: dict[str, Any]) -> str | None:
        return message.get("id")


def test_messages_are_known_by_their_own_ids() -> None:
    log = Log()
    conversation = Conversation(adapter=Ids(), on_event=log)
    history = [user("Go.") | {"id": "1"}, answer_message("Same.") | {"id": "2"}, user("On.") | {"id": "3"}]
    conversation.host.ingest(history)
    # Metadata may be newer; what is sent is what the history holds now.
    newer = [m | {"seen": True} for m in history]
    assert conversation.host.ingest(newer).continued
    assert all(a is b for a, b in zip(conversation.request().view, newer, strict=True))
    # The same words under another id are another message.
    assert conversation.host.ingest([*newer[:2], user("On.") | {"id": "4"}]).forked
    assert log.of(HistoryForked) == [HistoryForked(2)]
    # And so are other words under the same id.
    changed = [*newer[:2], user("Off.") | {"id": "4"}]
    assert conversation.host.ingest(changed).forked
    assert conversation.request().view == changed


def test_a_message_that_was_changed_in_place_is_noticed_while_it_is_the_last() -> None:
    conversation = Conversation()
    history = [user("Go."), answer_message("Yes."), user("On.")]
    conversation.host.ingest(history)
    history[-1]["content"] = "On, then."
    assert conversation.host.ingest(history).forked
    assert conversation.request().view[-1]["content"] == "On, then."


def test_an_unanswered_request_may_be_tried_again_with_other_words() -> None:
    conversation = Conversation(budget="0.5k")
    live(conversation, [*LONG, user("First try.")])
    conversation.host.ingest([*LONG, user("Second try.")])
    plain = Conversation(budget="0.5k")
    live(plain, [*LONG, user("Second try.")])
    assert standing(conversation) == standing(plain)


# What no provider would take


@every_dialect
def test_a_result_without_its_call_is_refused_and_changes_nothing(dialect: Dialect) -> None:
    good: Session = [user("Go."), answer_message("Yes.")]
    orphan: Session = [*good, {"role": "tool", "tool_call_id": "nobody", "content": "x"}]
    messages = dialect.write(orphan)
    conversation = Conversation(dialect.name)
    conversation.host.ingest(messages[:2])
    before = standing(conversation)
    for feed in (conversation.host.ingest, conversation.extend):
        with pytest.raises(HistoryError, match="a result answers the call 'nobody'"):
            feed(messages if feed == conversation.host.ingest else messages[2:])
        assert standing(conversation) == before
    assert conversation.host.ingest([*messages[:2], *dialect.write([user("On.")])]).added == 1


def test_messages_of_another_format_are_refused_and_change_nothing() -> None:
    conversation = Conversation()
    conversation.host.ingest(LONG[:4])
    before = standing(conversation)
    for wrong in ([*LONG[:4], {"role": "robot"}], [{"role": "robot"}], [*LONG[:3], {"role": 7}]):
        with pytest.raises(ValueError, match="role"):
            conversation.host.ingest(wrong)
        assert standing(conversation) == before


class Dropping(Adapter[Any]):
    drops_orphans = True


def test_orphans_are_left_out_where_a_framework_leaves_them_out() -> None:
    conversation = Conversation(adapter=Dropping())
    conversation.extend(
        [user("Go."), answer_message("Yes."), {"role": "tool", "tool_call_id": "nobody", "content": "x"}, user("On.")]
    )
    assert [message["content"] for message in conversation.request().view] == ["Go.", "Yes.", "On."]
    anthropic = Conversation("anthropic", adapter=Dropping())
    block = {"type": "tool_result", "tool_use_id": "nobody", "content": "x"}
    anthropic.append({"role": "user", "content": [block, {"type": "text", "text": "Go."}]})
    assert anthropic.request().view == [{"role": "user", "content": [{"type": "text", "text": "Go."}]}]


def test_items_of_one_answer_are_one_answer() -> None:
    """R6 counts answers, and passes run ahead of answers, not of each of their items."""
    log = Log()

    def call(number: int, tool: str, **arguments: Any) -> dict[str, Any]:
        return {"type": "function_call", "call_id": f"c{number}", "name": tool, "arguments": json.dumps(arguments)}

    def output(number: int) -> dict[str, Any]:
        return {"type": "function_call_output", "call_id": f"c{number}", "output": "x" * 400}

    history: list[Any] = [
        {"role": "user", "content": "Go."},
        call(1, "delimiter", action="start", name="look", type="expl"),
        call(2, "read"),
        output(1),
        output(2),
        call(3, "delimiter", action="end", description="known"),
        call(4, "read"),
        output(3),
        output(4),
    ]
    conversation = Conversation("openai_responses", budget="0.15k", policy=Policy.paper(), on_event=log)
    conversation.host.ingest(history)
    assert [event.items for event in log.of(PassRan)] == [5]
    look = next(episode for episode in conversation.episodes if episode.name == "look")
    assert not look.settled
    conversation.host.ingest([*history, {"role": "assistant", "content": "Done."}])
    assert look.settled
