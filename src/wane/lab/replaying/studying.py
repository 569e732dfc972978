"""Prepares sessions for replays: counted, indexed, with prices and an annotator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from wane.core import Counter, chars
from wane.inference import has_tasks
from wane.lab.counting import count
from wane.lab.readers import Recording
from wane.lab.recorded_session import RecordedSession
from wane.lab.replaying.strategy_replay import Pricing, Subject
from wane.lab.rereads import rereads
from wane.strategies.strategy import Annotate, AnnotateChoice, StrategySettings, choose_annotator

_ANNOTATIONS: Final[Mapping[Annotate, str]] = {"infer": "inferred", "model": "agent", "host": "host"}


@dataclass(frozen=True, slots=True)
class Studied:
    """A session prepared for replays.

    Attributes:
        recording: the session and its origin.
        subject: the session, counted and indexed.
        annotate: who marks its episodes.
        tasks: whether its agent grouped episodes in tasks (R17).
        pricing: prices and cache rules of its replays.
        budget: tokens that its view may hold, if it has a budget of its own; None for that of the replay.
    """

    recording: Recording
    subject: Subject
    annotate: Annotate
    pricing: Pricing
    tasks: bool = False
    budget: int | None = None

    @property
    def window(self) -> int | None:
        """Tokens of the window of the session's model; None if that is not known."""
        return self.subject.material.session.window or self.pricing.prices.window

    def under(self, settings: StrategySettings) -> StrategySettings:
        """Return settings for the session: with its marks, its budget if it has one, and its model's window."""
        window = settings.window or self.window
        budget = self.budget or settings.budget
        return replace(settings, annotate=self.annotate, tasks=self.tasks, budget=budget, window=window)

    @property
    def inferred(self) -> bool:
        """Whether episodes are inferred, because none are marked."""
        return self.annotate == "infer"

    def to_dict(self) -> dict[str, Any]:
        """Return the session's figures as JSON-able data."""
        material, session = self.subject.material, self.recording.session
        return {
            "name": session.name,
            "source": session.source,
            "path": self.recording.path,
            "parent": self.recording.parent,
            "title": session.title,
            "cwd": session.cwd,
            "model_calls": len(session.own_calls),
            "model_calls_shared": len(session.calls) - len(session.own_calls),
            "tokens": sum(item.tokens for item in material.own_items),
            "overhead_tokens": material.overhead,
            "tokens_from_usage": material.calibrated,
            "user_turns": len(session.user_turns),
            "compactions": len(session.compactions),
            "summary_tokens": self.subject.summary_tokens,
            "budget": self.budget,
            "annotation": _ANNOTATIONS[self.annotate],
            "price": self.pricing.prices.name if self.pricing.own else None,
            "cache_hour": self.pricing.hour,
            "joined": len(session.starts),
            "sidechains": [side.name for side in session.sidechains],
            "rereads": rereads(session).to_dict() if session.sidechains else None,
            "problems": [{"line": problem.line, "what": problem.what} for problem in session.problems],
        }


def study(
    recordings: Sequence[Recording],
    pricing: Pricing,
    counter: Counter = chars,
    annotate: AnnotateChoice = "auto",
    summary_tokens: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    *,
    own_prices: bool = False,
) -> list[Studied]:
    """Prepare sessions for replays: count their tokens, and index what their calls need.

    Args:
        recordings: the sessions.
        pricing: prices and cache rules. The cache of a session whose recorded writes were mostly for an hour is written
            for an hour as well.
        counter: estimates the tokens of a text.
        annotate: who marks episodes.
        summary_tokens: length of a summary; None as in `Subject.of`.
        progress: called with the number of sessions done, and the number of all sessions.
        own_prices: whether sessions are priced by the models that they recorded; see `Pricing.of_recording`.
    """
    done = []
    for number, recording in enumerate(recordings):
        subject = Subject.of(count(recording.session, counter), summary_tokens)
        own = Pricing.of_recording(recording.session, pricing) if own_prices else pricing
        used = own.cached_for(hour=pricing.hour or recording.session.cached_for_hour)
        used = replace(used, forced=pricing.hour)
        marks = annotator_of(recording.session, annotate)
        done.append(Studied(recording, subject, marks, used, has_tasks(recording.session.parts)))
        if progress:
            progress(number + 1, len(recordings))
    return done


def annotator_of(session: RecordedSession, choice: AnnotateChoice = "auto") -> Annotate:
    """Return who marks a session's episodes; see `choose_annotator`."""
    return choose_annotator(choice, session.parts, session.marks)


def budgets_told(budget: int, studied: Iterable[Studied]) -> str:
    """Return the budgets of replays in words, with that of sub-agents if they have another one."""
    outer: set[int] = set()
    agents: set[int] = set()
    for prepared in studied:
        budgets = agents if prepared.recording.parent else outer
        budgets.add(prepared.budget or budget)
    text = f"{_spread(outer or agents)} tokens"
    return f"{text} ({_spread(agents)} for sub-agents)" if outer and agents - outer else text


def _spread(budgets: Iterable[int]) -> str:
    """Return budgets in words: one, or the range of several."""
    least, most = min(budgets), max(budgets)
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"
