"""A recorded session: the form in which the session of any agent is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wane.core import OWN_TOOLS, EvictedIndex, Kind, Mark
from wane.core.episodes import Choice
from wane.core.light import light_dataclass
from wane.formats.message_format import Part
from wane.lab.names import JOURNAL
from wane.prices import SCRIPTED, CacheUse, name_at_tier
from wane.rewrites import Cause, Certainty, Explanation


@light_dataclass(frozen=True, slots=True)
class CallUsage:
    """The usage that a provider reported for one model call, in tokens.

    Attributes:
        input: input tokens that were neither read from the cache nor written to it.
        cache_read: input tokens that came from the cache.
        cache_write: input tokens that were written to it.
        output: output tokens, reasoning included; None if the recording holds no reliable figure.
        cache_write_hour: the part of `cache_write` with a lifetime of an hour, if the provider offers that.
        tier: how the call was served, if that changes its price (`wane.prices.at_tier`).
        rewritten: why the prefix of the previous request was paid again, if the provider or Wane's proxy reported it.
        fees: dollars for what the provider charges besides tokens, such as searches.
        further_fees: whether there may be more of them, of unknown amount, so that its cost is a lower bound.
    """

    input: int
    cache_read: int = 0
    cache_write: int = 0
    output: int | None = None
    cache_write_hour: int = 0
    tier: str = ""
    rewritten: Explanation | None = None
    fees: float = 0.0
    further_fees: bool = False

    def without_output(self) -> CallUsage:
        """Return it with its output unknown."""
        tokens = self.input, self.cache_read, self.cache_write, None, self.cache_write_hour
        return CallUsage(*tokens, self.tier, self.rewritten, self.fees, self.further_fees)

    @property
    def use(self) -> CacheUse:
        """Its input tokens, by what the cache did with them."""
        return CacheUse(self.cache_read, self.cache_write, self.input, self.cache_write_hour)

    @property
    def total_input(self) -> int:
        """All input tokens of the request."""
        return self.input + self.cache_read + self.cache_write


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """What a client recorded of a request that it sent, as far as a cache depends on it.

    Attributes:
        messages: a digest of each message.
        tools: a digest of each tool, by name; None if they were not recorded.
        system: a digest of each block of the system prompt; empty if it was not recorded.
        settings: the parameters on which the cache depends, each as JSON.
        breakpoints: whether it set breakpoints for the cache.
    """

    messages: tuple[str, ...]
    tools: Mapping[str, str] | None
    system: tuple[str, ...]
    settings: Mapping[str, str]
    breakpoints: bool

    def change_to(self, later: RecordedRequest) -> Explanation | None:
        """Return what a later request changed of this one; None if it continues it."""
        if self.tools is not None and later.tools is not None and dict(self.tools) != dict(later.tools):
            names = sorted(name for name, _ in self.tools.items() ^ later.tools.items())
            named = ", ".join(dict.fromkeys(names))
            return Explanation(Cause.TOOLS, Certainty.RECORDED, f"the client sent other tools: {named}")
        if self.tools is not None and list(self.tools) != list(later.tools or ()):
            return Explanation(Cause.TOOLS, Certainty.RECORDED, "the client sent its tools in another order")
        if self.system and later.system and self.system != later.system:
            return Explanation(Cause.SYSTEM, Certainty.RECORDED, "the client sent another system prompt")
        changed = sorted(dict(self.settings.items() ^ later.settings.items()))
        if changed:
            return Explanation(Cause.SETTINGS, Certainty.RECORDED, f"the client changed {', '.join(changed)}")
        pairs = zip(self.messages, later.messages, strict=False)
        same = next((index for index, (old, new) in enumerate(pairs) if old != new), len(later.messages))
        if same < len(self.messages):
            what = f"the client sent other messages from number {same + 1:,} of {len(self.messages):,} on"
            return Explanation(Cause.MESSAGES, Certainty.RECORDED, what)
        return None


@light_dataclass(frozen=True, slots=True)
class ModelCall:
    """One call of the model.

    Attributes:
        first: index of the first part of its output; it saw only parts before that.
        stop: index after the last part of its output; equal to `first` if no output was recorded.
        usage: the usage that the provider reported; None if it was not recorded.
        at: when the answer was recorded, in seconds since 1970 UTC; None if unknown.
        model: the model's name as recorded, without a provider.
        provider: its provider, if the recording names it.
        inherited: whether it was made in another session, from which this one branches off; it counts there.
        cost: its cost in dollars by the recording; None if none was recorded.
        id: its id, which its copies in other sessions of the same source share; empty if it has none.
        effort: the effort of reasoning, as the client calls it; empty if it was not recorded.
        version: the client's version; empty if it was not recorded.
        samplings: what else the provider sampled for the request, such as further passes of a loop over its own tools,
            or an advisor; each is a call with its usage and model. `usage` is that of the pass that read the request,
            with the output of all passes of the model.
        request: what the client recorded of the request; None if it records none.
        assumed: the model whose prices `cost` takes, where none were known for `model`; empty if none stood in.
        further: whether Wane's proxy made it by itself, as a further round of a reply that its client never sent back.
    """

    first: int
    stop: int
    usage: CallUsage | None = None
    at: float | None = None
    model: str | None = None
    provider: str = ""
    inherited: bool = False
    cost: float | None = None
    id: str = ""
    effort: str = ""
    version: str = ""
    samplings: tuple[ModelCall, ...] = ()
    request: RecordedRequest | None = None
    assumed: str = ""
    further: bool = False

    @property
    def priced_as(self) -> str | None:
        """The model with the tier that served it, as `wane.prices` takes it; None if it was not recorded."""
        if self.model is None:
            return None
        return name_at_tier(self.provider, self.model, "" if self.usage is None else self.usage.tier)


@dataclass(frozen=True, slots=True)
class Compaction:
    """A compaction by the recording agent. Its summary is no part of the history.

    Attributes:
        position: number of parts before it.
        summary: the summary, as the model saw it; empty if it was not recorded.
        first_kept: index of the first part that stayed in view unchanged; `position` if none did.
        tokens_before: tokens of the view before it, None if not recorded.
        at: when, in seconds since 1970 UTC; None if unknown.
        tokens_after: tokens of the view after it, None if not recorded.
        quoted: earlier messages that the model saw again word for word, beside the summary.
    """

    position: int
    summary: str
    first_kept: int
    tokens_before: int | None = None
    at: float | None = None
    tokens_after: int | None = None
    quoted: tuple[str, ...] = ()

    def holds(self, text: str) -> bool:
        """Return whether the model still saw a text behind it, word for word, though the text was before it."""
        return text in self.summary or any(text in message for message in self.quoted)


@dataclass(frozen=True, slots=True)
class EvictionStep:
    """The parts of one episode that a pass removed at one level (R9).

    Attributes:
        level: the level.
        removed: indexes of the removed parts, in order.
        freed: the freed tokens, by the recording agent's count.
        by_person: whether a person had let the episode go (R23).
    """

    level: str
    removed: tuple[int, ...]
    freed: int
    by_person: bool = False


@dataclass(frozen=True, slots=True)
class PersonsChoice:
    """What a person chose for an episode that the agent had marked (R23).

    Attributes:
        position: number of parts before it.
        episode: the episode's number in order of start.
        choice: to keep it in view, to let it go, or neither any more.
    """

    position: int
    episode: int
    choice: Choice


@dataclass(frozen=True, slots=True)
class RecordedEviction:
    """A pass that the recording agent ran, as Wane's own journals record it (R10), or what a client evicted itself.

    Attributes:
        position: number of parts before it.
        removed: indexes of the parts that it removed from the view, in order.
        tokens_before: tokens of the view before it, by the recording agent's count.
        tokens_after: tokens of the view after it.
        at: when, in seconds since 1970 UTC; None if unknown.
        steps: the removed parts by episode and level, if recorded.
        budget: tokens that the view could hold; None if not recorded.
        overflowed: whether it had to remove unfinished work, or content that such work needs (R16).
        index: the index of evicted content that it left; None if there is none (R20).
        client: the client that removed the parts by rules of its own; empty for Wane.
    """

    position: int
    removed: tuple[int, ...]
    tokens_before: int
    tokens_after: int
    at: float | None = None
    steps: tuple[EvictionStep, ...] = ()
    budget: int | None = None
    overflowed: bool = False
    index: EvictedIndex | None = None
    client: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a file that could not be read and was left out.

    Attributes:
        line: its line in the file, from 1; None if the file has no lines of its own.
        what: the problem.
    """

    line: int | None
    what: str


@dataclass(slots=True)
class RecordedSession:
    """One session of one agent, in the order of events. Do not change it once it is read.

    Attributes:
        name: its name, from its file.
        source: the format that it was read from, one of `wane.lab.readers.reading.reader_names`; `mixed` if sessions of
            several formats were joined into this one.
        parts: its content. Every result follows its call, and no call has two results.
        messages: by part, the number of its message; parts of one assistant message share it (R6).
        calls: the model calls, in order; each assistant part belongs to exactly one.
        compactions: the compactions that happened.
        system_tokens: tokens of the system prompt and tool definitions, if known but not among the parts.
        sidechains: sessions of sub-agents.
        problems: unreadable content that was left out.
        title: first words of the user's first turn.
        cwd: working directory, if recorded.
        evictions: the passes that the recording agent ran.
        starts: first part of each session that was joined into this one; empty if none was.
        reasoning_cleared: numbers of parts after which requests no longer held the reasoning among those parts, as
            OpenAI drops it when a new user turn begins; empty if it stays.
        asides: model calls that wrote summaries, which are no part of the history; only those with recorded usage.
        totals: where no call has recorded input, the sums of the usage of each model, with the number of its calls.
        window: tokens of the model's window by the agent's figure; None if it was not recorded.
        abandoned: the model calls on abandoned branches, whose parts are left out: the user edited a turn, or tried it
            again. They were paid all the same.
        unread: number of records that could not be read and may have held model calls.
        id: its id, by which sub-agents' sessions in files of their own name it as their parent; empty if it has none.
        path: for a sub-agent's session that was read with the one that started it, its own file; else empty.
        parent: for a sub-agent's session in a file of its own, the id of the session that started it, or `?` if the
            recording says that it is unknown; else empty.
        agent: of a session that Wane's proxy recorded, the agent that sent the requests, by the format of its own
            sessions; empty if it is unknown.
        marks: the marks of the program around the agent (R18), by index of the part after them.
        budget: tokens that a view could hold at its end, where Wane was at work and recorded it; else None.
        choices: what a person chose for episodes that the agent had marked.
    """

    name: str
    source: str
    parts: list[Part] = field(default_factory=list)
    messages: list[int] = field(default_factory=list)
    calls: list[ModelCall] = field(default_factory=list)
    compactions: list[Compaction] = field(default_factory=list)
    system_tokens: int | None = None
    sidechains: list[RecordedSession] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    title: str = ""
    cwd: str | None = None
    evictions: list[RecordedEviction] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    reasoning_cleared: list[int] = field(default_factory=list)
    asides: list[ModelCall] = field(default_factory=list)
    totals: list[tuple[ModelCall, int]] = field(default_factory=list)
    window: int | None = None
    abandoned: list[ModelCall] = field(default_factory=list)
    unread: int = 0
    id: str = ""
    parent: str = ""
    path: str = ""
    agent: str = ""
    marks: dict[int, tuple[Mark, ...]] = field(default_factory=dict)
    budget: int | None = None
    choices: list[PersonsChoice] = field(default_factory=list)

    @property
    def own_calls(self) -> list[ModelCall]:
        """The model calls that count for this session, not for one that it branches off from."""
        return [call for call in self.calls if not call.inherited]

    @property
    def own_asides(self) -> list[ModelCall]:
        """The calls beside the history that count for this session, not for one that it branches off from."""
        return [call for call in self.asides if not call.inherited]

    @property
    def scripted(self) -> bool:
        """Whether a script answered in the model's place, as in the demo: nothing was paid, whatever was recorded."""
        calls = self.own_calls
        return bool(calls) and all(call.provider == SCRIPTED.rstrip(":") for call in calls)

    @property
    def evicted(self) -> bool:
        """Whether Wane evicted content while it was recorded."""
        return any(not eviction.client for eviction in self.evictions)

    @property
    def managed(self) -> bool:
        """Whether Wane was at work while it was recorded: it evicted content, or the model called Wane's own tools.

        Marks cost calls and tokens from the first on, long before anything is evicted.
        """
        return self.evicted or (self.source == JOURNAL and any(part.tool in OWN_TOOLS for part in self.parts))

    @property
    def cached_for_hour(self) -> bool:
        """Whether most of the recorded cache writes had a lifetime of an hour."""
        usages = [call.usage for call in (*self.calls, *self.asides) if call.usage]
        return 2 * sum(usage.cache_write_hour for usage in usages) > sum(usage.cache_write for usage in usages)

    @property
    def hours(self) -> list[bool]:
        """By call, whether the cache is written for an hour: as the latest write of its model was, or else most were.

        A call whose usage has no write takes that of the calls before.
        """
        usual = self.cached_for_hour
        latest: dict[str | None, bool] = {}
        hours = []
        for call in self.calls:
            if call.usage and call.usage.cache_write:
                latest[call.model] = 2 * call.usage.cache_write_hour > call.usage.cache_write
            hours.append(latest.get(call.model, usual))
        return hours

    @property
    def user_turns(self) -> list[int]:
        """Indexes of the user turns among the parts."""
        user = Kind.USER  # Python 3.11 takes five times as long to look up a member of an enumeration as a name
        return [index for index, part in enumerate(self.parts) if part.kind is user]

    @property
    def answered(self) -> bool:
        """Whether any model call has output or usage; if not, all of them failed."""
        return any(call.stop > call.first or call.usage for call in self.own_calls)
