"""What really happened in a run of the demo, watched from outside: the model knows nothing of it.

Each time the script needs something that it or an earlier task has seen before, there are four ways to have
it: it is still in view, it is known from the description of an exploration that was evicted, it is read
again, or it is recalled. The witness tells them apart by the whole history, which the model does not see.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pydantic_ai.messages import ModelMessage

from wane.conversation import Conversation
from wane.conversation.events import BudgetUnmet, Event, MessageTaken, PassRan
from wane.core import Episode, EpisodeType, FitReport, Level
from wane.demo.measure import user_turns
from wane.demo.model import Exchange
from wane.demo.moves import Need
from wane.demo.sight import Found, Sight


@dataclass(slots=True)
class Tally:
    """Counts of a run.

    Attributes:
        model_calls: requests that went to the model.
        input_tokens: what they held, in tokens.
        cached_tokens: how much of it repeated the beginning of the request before.
        output_tokens: what the replies held.
        peak_view_tokens: the largest view, with instructions and tool definitions.
        peak_request_tokens: the largest request, which may have a note of the git status behind the view.
        summaries: those among them that had a summary written, for a strategy that asks for some.
        passes: passes that ran.
        unmet: requests that went out over the budget because nothing more could be evicted (R13).
        over_budget: views over the budget, those that no pass could bring below it (`unmet`) not among them.
        evicted_tokens: what the passes took.
        rejected: `delimiter` calls that were refused.
        in_view: times that something an earlier task had seen was still in view.
        kept: times that a step used what was in view only because an unfinished act builds on it.
        described: times that the description of a stripped exploration was enough.
        re_read: times that something seen before had to be looked up again.
        recalled: times that an evicted episode was recalled.
        turns_lost: the most of the user's turns that a request lacked, or had otherwise than they were said.
    """

    model_calls: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    peak_view_tokens: int = 0
    peak_request_tokens: int = 0
    summaries: int = 0
    passes: int = 0
    unmet: int = 0
    over_budget: int = 0
    evicted_tokens: int = 0
    rejected: int = 0
    in_view: int = 0
    kept: int = 0
    described: int = 0
    re_read: int = 0
    recalled: int = 0
    turns_lost: int = 0


@dataclass(slots=True)
class Witness:
    """Watches a session from outside.

    Attributes:
        conversation: the session's context.
        tally: what was counted so far.
        turns: what the user has said so far.
    """

    conversation: Conversation[ModelMessage]
    tally: Tally = field(default_factory=Tally)
    turns: list[str] = field(default_factory=list)
    _owners: dict[str, Episode | None] = field(default_factory=dict)
    _tasks: dict[str, int] = field(default_factory=dict)
    _spared: set[int] = field(default_factory=set)
    _unmet: bool = False

    def __post_init__(self) -> None:
        self.conversation.listeners.append(self._note)

    def saw(self, exchange: Exchange) -> None:
        """Take in one model call."""
        tally, usage = self.tally, exchange.usage
        tally.model_calls += 1
        tally.input_tokens += usage.input_tokens
        tally.cached_tokens += usage.cache_read_tokens
        tally.output_tokens += usage.output_tokens
        if exchange.aside:
            tally.summaries += 1
            return
        tally.peak_view_tokens = max(tally.peak_view_tokens, exchange.view_tokens)
        tally.peak_request_tokens = max(tally.peak_request_tokens, usage.input_tokens)
        tally.over_budget += exchange.view_tokens > self.conversation.window.budget and not self._unmet
        self._unmet = False
        said = list(user_turns(exchange.messages))
        if said != self.turns:
            tally.turns_lost = max(tally.turns_lost, _lost(self.turns, said))
        self._count(exchange)

    def _note(self, event: Event) -> None:
        match event:
            case MessageTaken(_, _, items, added):
                for item, outcome in zip(items, added, strict=True):
                    if item.tool is not None and item.call_id is not None:
                        self._owners[item.call_id] = outcome.episode
                        self._tasks[item.call_id] = len(self.turns)
                    self.tally.rejected += outcome.verdict is not None and not outcome.verdict.accepted
            case PassRan(report):
                self.tally.passes += 1
                self.tally.evicted_tokens += report.tokens_before - report.tokens_after
                self._spared |= set(self._spared_by(report))
            case BudgetUnmet():
                self.tally.unmet += 1
                self._unmet = True

    def _spared_by(self, report: FitReport) -> Iterable[int]:
        """Explorations that stayed, though younger ones were stripped, because the active act builds on them (R7)."""
        active = self.conversation.window.active
        if active is None:
            return
        live = {episode.name: episode for episode in self.conversation.window.episodes}
        stripped = [step.number for step in report.steps if self._is_exploration(step.number)]
        for name in active.dependencies:
            episode = live.get(name)
            if episode and episode.level is Level.NONE and any(number > episode.number for number in stripped):
                yield episode.number

    def _is_exploration(self, number: int) -> bool:
        return any(e.number == number and e.type is EpisodeType.EXPL for e in self.conversation.episodes)

    def _count(self, exchange: Exchange) -> None:
        reply = exchange.reply
        found = (reply.found or {}).values()
        sources = {seen.call_id: seen for seen in found}
        kinds = [self._kind(seen) for seen in sources.values()]
        self.tally.kept += kinds.count("kept")
        self.tally.in_view += kinds.count("in view")
        self.tally.described += kinds.count("described")
        again = self._seen_before(reply.sought, exchange.tools)
        if not again:
            return
        recalls = sum(1 for call in reply.calls if call.tool == "recall")
        self.tally.recalled += recalls
        paths = {need.path for need in again}
        self.tally.re_read += len(paths) if not recalls else len(paths - {""})

    def _kind(self, seen: Found) -> str:
        owner = self._owners.get(seen.call_id)
        active = self.conversation.window.active
        if seen.described:
            return "described" if owner is not None and owner.level is not Level.NONE else ""
        if owner and active and owner.number in self._spared and owner.name in active.dependencies:
            return "kept"
        return "in view" if self._tasks.get(seen.call_id, 0) < len(self.turns) else ""

    def _seen_before(self, needs: Iterable[Need], tools: frozenset[str]) -> list[Need]:
        """Those of some needs that the whole history would have answered."""
        needs = list(needs)
        if not needs:
            return []
        history = Sight(self.conversation.messages, tools)
        return [need for need in needs if history.find(need) is not None]


def _lost(turns: list[str], said: list[str]) -> int:
    """How many turns are not there as they were said; one at least, as the two differ."""
    return max(1, len(turns) - sum(1 for turn in turns if turn in said))
