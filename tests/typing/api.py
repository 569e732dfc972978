"""Uses the public API as an application would. It is never run: mypy --strict checks that the types hold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, assert_type

import wane
from wane.conversation import Adapter, Call, Change, Conversations, Request
from wane.conversation.events import Event, PassRan
from wane.formats import StoredFormat, Transcript, get_format
from wane.formats.message_format import Part
from wane.journal import Journal, MessageRecord, SessionInfo, SessionStore, UsageRecord, read
from wane.rebuilding import Rebuilt, rebuild

# The core

policy = replace(wane.Policy.paper(), low_water=0.8, description_share=0.1)
window = wane.ContextWindow(budget=80_000, policy=policy, overhead=900, tool_classes={"fetch": "bulk"})
also = wane.ContextWindow(tool_classes={"fetch": wane.ToolClass.DURABLE})

added = window.add(wane.Item(wane.Kind.CALL, tokens=12, call_id="c1", tool="delimiter", arguments="{}"))
assert_type(added, wane.Added)
assert_type(added.index, int)
assert_type(added.episode, wane.Episode | None)
if added.verdict is not None and not added.verdict.accepted:
    assert_type(added.verdict.text, str)
assert_type(window.extend([wane.Item(wane.Kind.RESULT, 3, call_id="c1")]), list[wane.Added])

report = window.fit(cold=True)
assert_type(report, wane.FitReport)
for step in report.steps:
    assert_type(step, wane.Step)
    assert_type(step.episode, str | None)
    assert_type(step.level, wane.Level)
    assert_type(step.removed, tuple[int, ...])
if report.pinned is not None:
    assert_type(report.pinned, wane.Pinned)
    assert_type(report.pinned.holders(), list[tuple[str, int]])
assert_type(report.satisfied, bool)
assert_type(report.explain(), str)

window.observe(input_tokens=3_210)
window.apply(report.trace)
window.budget = wane.parse_budget("50%", window=200_000)
assert_type(window.visible, list[int])
assert_type(window.active, wane.Episode | None)
assert_type(window.members("look"), tuple[range, ...])
assert_type(wane.ContextWindow.restore(window.export()), wane.ContextWindow)
for episode in window.episodes:
    assert_type(episode.name, str | None)
    assert_type(episode.type, wane.EpisodeType)
    assert_type(episode.dependencies, tuple[str, ...])

# The dry run


def words(text: str, /) -> int:
    """A counter of one's own."""
    return len(text.split())


counter: wane.Counter = words
counter = wane.chars
messages: list[dict[str, Any]] = [{"role": "user", "content": "hello"}]
plan = wane.plan(messages, budget=80_000, policy=policy, format="openai", counter=words)
assert_type(plan, wane.Plan)
assert_type(plan.satisfied, bool)
assert_type(plan.visible, tuple[int, ...])
assert_type(plan.to_dict(), dict[str, Any])
wane.plan(messages, budget=1_000, counter="chars", tool_classes={"read": "bulk"}, annotate="infer")

# A conversation


def heard(event: Event) -> None:
    """A listener of one's own."""
    if isinstance(event, PassRan):
        assert_type(event.report, wane.FitReport)


conversation = wane.Conversation(budget="80k", policy=policy, recall=True, counter=words, on_event=heard)
assert_type(conversation, wane.Conversation[dict[str, Any]])
for call in conversation.append(messages[0], input_tokens=10, at=1.5):
    assert_type(call, Call[dict[str, Any]])
    assert_type(conversation.append(call.result({"found": 0})), list[Call[dict[str, Any]]])
request = conversation.request(cold=True)
assert_type(request, Request[dict[str, Any]])
assert_type(request.view, list[dict[str, Any]])
assert_type(request.report, wane.FitReport | None)
assert_type(request.reminder, str | None)
assert_type(conversation.ended, bool)
assert_type(conversation.host.ingest(messages), Change)
assert_type(conversation.host.answer(Call("delimiter", {"action": "end"}, "c1")), str)
conversation.host.foresee([Call("delimiter", "{}")])
conversation.change(budget="1m")
assert_type(conversation.settings.budget, int)
assert_type(conversation.restore(conversation.state(), conversation.messages), bool)
assert_type(conversation.search("x"), str)
assert_type(conversation.branch(), wane.Conversation[dict[str, Any]])


class Dated(Adapter[dict[str, Any]]):
    """What messages of one's own tell."""

    def time(self, message: dict[str, Any]) -> float | None:
        """Return when one was made."""
        return message.get("at")


dated = wane.Conversation("anthropic", annotate="infer", adapter=Dated())
several = Conversations(lambda: wane.Conversation())
assert_type(several.of(messages), wane.Conversation[dict[str, Any]])

# Errors

try:
    wane.plan([], budget=0)
except wane.ConfigError as error:
    assert_type(error, wane.ConfigError)
except (wane.FormatError, wane.HistoryError, wane.MissingExtraError) as problem:
    base: wane.WaneError = problem

# Formats and sessions

format_: StoredFormat[Any] = get_format("openai")
transcript = Transcript(format_, wane.chars)
assert_type(transcript.append(messages[0]), list[wane.Item])
part = Part(wane.Kind.USER, "words")
part.text = "others"  # type: ignore[misc]  # it is frozen, though light
assert_type(transcript.text([0]), str)

store = SessionStore(Path("sessions"))
assert_type(store.sessions(Path.cwd()), list[SessionInfo])
with store.create(Path.cwd(), message_format="openai") as journal:
    assert_type(journal, Journal)
    journal.append(MessageRecord(message=messages[0]))
    journal.append(UsageRecord(items=1, input_tokens=10, output_tokens=2))
    journal.commit()
rebuilt = rebuild(read(journal.path).records, format_, counter=words)
assert_type(rebuilt, Rebuilt)
assert_type(rebuilt.window, wane.ContextWindow)
assert_type(rebuilt.episodes, list[wane.Episode])
