"""What every format must do, over all of them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wane
from tests.conformance import policy_of
from tests.formats.convert import joined_runs, to_anthropic, to_gemini, to_pydantic_ai, to_responses
from tests.marks import first_quick
from tests.oracle import assistant_messages, latest_message, read
from tests.strategies import policies, sessions
from wane import ContextWindow, Item, Kind, Policy
from wane.formats import Part, StoredFormat, Transcript, detect_format, get_format
from wane.planning import plan_items

Session = list[dict[str, Any]]


@dataclass(frozen=True)
class Case:
    """A format, and how to write a session of chat messages in it; `tells` is what is left of it on the wire."""

    id: str
    format: StoredFormat[Any]
    write: Callable[[Session], list[Any]]
    tells: Callable[[list[Any]], list[Any]] = lambda messages: messages


CASES = (
    Case("openai", get_format("openai"), lambda messages: messages),
    Case("pydantic_ai", get_format("pydantic_ai"), to_pydantic_ai),
    Case("pydantic_ai-joined", get_format("pydantic_ai"), lambda messages: to_pydantic_ai(messages, joined=True)),
    Case("anthropic", get_format("anthropic"), to_anthropic),
    Case("anthropic-joined", get_format("anthropic"), lambda messages: to_anthropic(messages, joined=True)),
    Case("openai_responses", get_format("openai_responses"), to_responses, joined_runs),
    Case("gemini", get_format("gemini"), to_gemini),
    Case("gemini-joined", get_format("gemini"), lambda messages: to_gemini(messages, joined=True)),
)

pytestmark = pytest.mark.quick(3)

every_format = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)


def parts_of(case: Case, messages: Sequence[Any]) -> list[Part]:
    """All parts; what they need is about their place, not about them."""
    return [replace(part, needs=()) for message in messages for part in case.format.parts(message)]


def is_subsequence(some: Sequence[Any], whole: Sequence[Any]) -> bool:
    rest = iter(whole)
    return all(any(entry == other for other in rest) for entry in some)


@dataclass
class Lived:
    """A session that was taken in message by message, with a pass at its end."""

    messages: list[Any]
    items: list[Item]
    window: ContextWindow
    transcript: Transcript[Any]

    @property
    def view(self) -> list[Any]:
        return self.transcript.view(self.window.visible)


def live(case: Case, session: Session, budget: int, policy: Policy) -> Lived:
    messages = case.write(copy.deepcopy(session))
    window, transcript = ContextWindow(budget, policy), Transcript(case.format)
    items = [item for message in messages for item in transcript.append(message)]
    window.extend(items)
    window.fit()
    return Lived(messages, items, window, transcript)


def shown_items(case: Case, lived: Lived) -> list[int]:
    """What the window has in view but for messages cut down to reasoning, which a format leaves out (R9)."""
    kept = []
    for number, group in groups(lived.transcript, lived.window.visible).items():
        parts = case.format.parts(lived.messages[number])
        cut = len(group) < len(parts)
        if not (cut and all(parts[lived.transcript.locate(index)[1]].kind is Kind.REASONING for index in group)):
            kept += group
    return kept


def pairs_of(parts: Sequence[Part]) -> list[tuple[int, int]]:
    """Indexes of each answered call and of its result; an id may serve again, and the first call is answered first."""
    waiting: dict[str | None, list[int]] = {}
    pairs = []
    for index, part in enumerate(parts):
        if part.kind is Kind.CALL:
            waiting.setdefault(part.call_id, []).append(index)
        elif part.kind is Kind.RESULT:
            pairs.append((waiting[part.call_id].pop(0), index))
    return pairs


@every_format
@given(session=sessions(), budget=st.integers(1, 400), policy=policies())
def test_the_view_is_a_part_of_the_history(case: Case, session: Session, budget: int, policy: Policy) -> None:
    lived = live(case, session, budget, policy)
    before, after = parts_of(case, lived.messages), parts_of(case, lived.view)
    assert is_subsequence(after, before)
    assert after == [before[index] for index in shown_items(case, lived)]
    for kind in (Kind.USER, Kind.SYSTEM):
        assert [part for part in after if part.kind is kind] == [part for part in before if part.kind is kind]


@every_format
@given(session=sessions(), budget=st.integers(1, 400), policy=policies())
def test_calls_keep_their_results_and_results_their_calls(
    case: Case, session: Session, budget: int, policy: Policy
) -> None:
    lived = live(case, session, budget, policy)
    visible = set(lived.window.visible)
    assert all((call in visible) == (result in visible) for call, result in pairs_of(parts_of(case, lived.messages)))


@every_format
@given(session=sessions(), budget=st.integers(1, 400), policy=policies())
def test_what_alone_can_exceed_a_budget(case: Case, session: Session, budget: int, policy: Policy) -> None:
    """R16: the user's words, what stands, accepted `delimiter` calls and the latest exchange, with what these need."""
    lived = live(case, session, budget, replace(policy, overflow="strip", prologue="turns"))
    if lived.window.tokens <= budget:
        return
    items = lived.items
    reading = read(items)
    needs = [(index, index + offset) for index, item in enumerate(items) for offset in item.needs]
    needs += [(index + offset, index) for index, item in enumerate(items) for offset in item.needed_by]
    if any(reading.owner[one] is not reading.owner[other] for one, other in needs):
        return  # episodes that share coupled items (R12) hold one another's back
    partner = reading.partner
    calls = (index for index, item in enumerate(items) if item.kind is Kind.CALL)
    seen = latest_message(items)
    stay = {index for index in calls if reading.verdicts.get(index) or partner.get(index, seen) >= seen}
    stay |= {partner[call] for call in stay if call in partner}
    stay |= {index for index in range(len(items)) if index not in reading.owner or index >= seen}
    for message in assistant_messages(items):
        if all(items[index].kind is Kind.REASONING for index in message):
            stay |= set(message)  # it loses nothing when the call leaves that it led to (R9)
    while more := {other for one, other in needs if one in stay} - stay:
        stay |= more | {partner[index] for index in more if index in partner}
    assert set(lived.window.visible) <= stay


@every_format
@given(session=sessions(), budget=st.integers(1, 400), policy=policies())
def test_no_message_of_the_view_is_empty(case: Case, session: Session, budget: int, policy: Policy) -> None:
    lived = live(case, session, budget, policy)
    empty = [message for message in lived.messages if not case.format.parts(message)]
    assert all(case.format.parts(message) or message in empty for message in lived.view)
    if len(lived.window.visible) < lived.window.item_count:
        assert all(case.format.parts(message) for message in lived.view)


@every_format
@given(session=sessions(), budget=st.integers(1, 400), policy=policies())
def test_nothing_is_changed_in_place(case: Case, session: Session, budget: int, policy: Policy) -> None:
    messages = case.write(copy.deepcopy(session))
    saved = copy.deepcopy(messages)
    window, transcript = ContextWindow(budget, policy), Transcript(case.format)
    for message in messages:
        window.extend(transcript.append(message))
    window.fit()
    transcript.view(window.visible)
    assert messages == saved


@every_format
@given(session=sessions())
def test_with_nothing_evicted_the_view_is_the_history_itself(case: Case, session: Session) -> None:
    lived = live(case, session, 10**9, Policy())
    assert len(lived.view) == len(lived.messages)
    assert all(one is other for one, other in zip(lived.view, lived.messages, strict=True))


@every_format
@given(session=sessions(), budget=st.integers(1, 400))
def test_a_message_that_stays_whole_is_the_same_object(case: Case, session: Session, budget: int) -> None:
    lived = live(case, session, budget, Policy.paper())
    mine = {id(message) for message in lived.messages}
    copies = [message for message in lived.view if id(message) not in mine]
    cut = sum(
        0 < len(group) < len(case.format.parts(lived.messages[number]))
        for number, group in groups(lived.transcript, shown_items(case, lived)).items()
    )
    assert len(copies) == cut


def groups(transcript: Transcript[Any], visible: Sequence[int]) -> dict[int, list[int]]:
    grouped: dict[int, list[int]] = {}
    for index in visible:
        grouped.setdefault(transcript.message_of(index), []).append(index)
    return grouped


@every_format
@given(session=sessions())
def test_dump_and_load_are_inverse(case: Case, session: Session) -> None:
    messages = case.write(session)
    dumped = json.loads(json.dumps(case.format.dump(messages)))
    loaded = case.format.load(dumped)
    assert loaded == case.tells(messages)
    assert case.format.dump(loaded) == dumped
    assert case.format.load(messages) == messages
    if messages:
        assert detect_format(dumped).name == ("openai" if is_mere_text(dumped) else case.format.name)


def is_mere_text(dumped: Sequence[Any]) -> bool:
    """Whether data is but turns of plain text, or of nothing, which look the same in all formats of plain JSON."""
    return all(entry.keys() == {"role", "content"} and isinstance(entry["content"] or "", str) for entry in dumped)


@every_format
def test_a_message_with_parallel_calls_is_split(case: Case) -> None:
    calls = [("c1", "grep"), ("c2", "read"), ("c3", "grep")]
    session: Session = [
        {"role": "user", "content": "Go."},
        {
            "role": "assistant",
            "content": "Both.",
            "reasoning_content": "Hm.",
            "tool_calls": [
                {"id": call, "type": "function", "function": {"name": tool, "arguments": "{}"}} for call, tool in calls
            ],
        },
        *({"role": "tool", "tool_call_id": call, "content": f"of {call}"} for call, _ in reversed(calls)),
    ]
    transcript = Transcript(case.format)
    messages = case.write(session)
    for message in messages:
        transcript.append(message)
    # items: user, reasoning, text, c1, c2, c3, results of c3, c2, c1
    view = transcript.view([0, 2, 4, 7])
    assert [(part.kind, part.text or part.call_id) for part in parts_of(case, view)] == [
        (Kind.USER, "Go."),
        (Kind.TEXT, "Both."),
        (Kind.CALL, "c2"),
        (Kind.RESULT, "of c2"),
    ]
    assert len(view) == 3


@pytest.mark.full
@pytest.mark.parametrize("case", first_quick(*CASES[:0:-1]), ids=lambda case: case.id)
def test_the_conformance_cases_come_out_the_same(
    case: Case, shared_cases: list[dict[str, Any]], subtests: pytest.Subtests
) -> None:
    for shared in shared_cases:
        with subtests.test(shared["name"]):
            taken = Transcript(case.format)
            pairs = [
                pair for message in case.format.load(case.write(shared["messages"])) for pair in taken.take(message)
            ]
            # The cases know nothing of what servers demand of a history's turns (R12b).
            items = [(replace(item, needs=part.needs, needed_by=()), part) for item, part in pairs]
            plan = plan_items(items, budget=shared["budget"], policy=policy_of(shared), annotate="model").to_dict()
            assert plan["steps"] == shared["expect"]["steps"]
            assert plan["visible"] == shared["expect"]["visible"]
            assert json.loads(json.dumps(plan))["satisfied"] == shared["expect"]["satisfied"]


@every_format
@pytest.mark.parametrize("data", [None, 7, "x", {"role": "user"}, [7], [None], [{}], [{"role": 7}], [{"kind": "x"}]])
def test_what_is_no_session_is_refused_by_number(case: Case, data: object) -> None:
    with pytest.raises(wane.FormatError, match=r"message 0|expected a list"):
        case.format.load(data)
