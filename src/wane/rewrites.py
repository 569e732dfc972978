"""Why a provider's cached prefix was paid again: the causes, and how they are known.

Wane's proxy compares requests (`wane.proxy.sessions.caching`). From a recording alone, a cause can only be inferred
(`wane.lab.cache.paid_again`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from wane.money import bounded_dollars
from wane.words import CAUSES

SMALLEST: Final = 1_024
"""Tokens that a rewrite must exceed to count: providers cache in steps, which hide smaller rewrites."""

CACHE_NOTE: Final = "cache"
"""Topic of a journal's note on a request that paid again, ahead of its usage: an `Explanation`, and the tokens."""


class Cause(StrEnum):
    """Why a prefix was paid again."""

    IDLE = "idle"
    MODEL = "model"
    TOOLS = "tools"
    SYSTEM = "system"
    SETTINGS = "settings"
    HEAD = "head"
    MESSAGES = "messages"
    BRANCH = "branch"
    COMPACTION = "compaction"
    EVICTION = "eviction"
    BREAKPOINTS = "breakpoints"
    REASONING = "reasoning"
    ROUTING = "routing"
    UPSTREAM = "upstream"
    UNEXPLAINED = "unexplained"

    @property
    def advice(self) -> str:
        """What it means, and what to do about it."""
        return _ADVICE[self]

    @property
    def label(self) -> str:
        """What people read for it."""
        return CAUSES[self]

    @property
    def hint(self) -> str:
        """In one short sentence, what to do about it."""
        return _HINTS[self]


_HINTS: Final = {
    Cause.IDLE: "Answer sooner, or use a cache that lives longer.",
    Cause.MODEL: "Each model has a cache of its own: change models between sessions.",
    Cause.TOOLS: "Connect MCP servers before the session begins.",
    Cause.SYSTEM: "Switch off what writes a time, an id or a status into it.",
    Cause.SETTINGS: "Keep effort and thinking as they are for a whole session.",
    Cause.HEAD: "The recording does not show why; behind `wane run` it would.",
    Cause.MESSAGES: "A newer version of the client may not.",
    Cause.BRANCH: "What was before it is still read, if it was cached there.",
    Cause.COMPACTION: "Wane sets finished work aside instead, and seldom.",
    Cause.EVICTION: "By Wane: a lower low water makes it rarer. By the client: its own rules.",
    Cause.BREAKPOINTS: "The client sets these marks (`cache_control`).",
    Cause.REASONING: "The provider does that when you speak.",
    Cause.ROUTING: "Nothing to do.",
    Cause.UPSTREAM: "The first one was down.",
    Cause.UNEXPLAINED: "The recording does not show it; behind `wane run` it would.",
}
"""What people can do about each cause."""

_ADVICE: Final = {
    Cause.IDLE: "the cache had expired. A longer lifetime costs more for each write; a pass or a compaction right "
    "after a long pause costs nothing extra.",
    Cause.MODEL: "each model has a cache of its own. Switch models between sessions, or in a sub-agent.",
    Cause.TOOLS: "the tools changed. Connect MCP servers before the first request, and keep tools in one order.",
    Cause.SYSTEM: "the system prompt changed. Keep times, ids and status out of it.",
    Cause.SETTINGS: "a setting changed on which the cache depends, such as thinking. Keep it for a whole session.",
    Cause.HEAD: "nothing of the conversation was read, and the recording does not show why: the system prompt, the "
    "tools, a setting or the first message changed, or the provider lost its entry. Look for a time or an id in the "
    "system prompt, and for restarts; wane proxy --shadow sees which it is.",
    Cause.MESSAGES: "a message in the middle or at the beginning changed, or a setting that the cache of the messages "
    "depends on, such as thinking.",
    Cause.BRANCH: "the conversation went on from an earlier message: a turn was edited, undone or tried again, or a "
    "summary took the place of what followed. What is before it can be read if a breakpoint is near.",
    Cause.COMPACTION: "the agent replaced its history by a summary, which rewrites all that follows the tools.",
    Cause.EVICTION: "content was evicted from the view. Where Wane did, a lower low-water mark makes its passes rarer; "
    "where the client did, by its own rules, only its settings can.",
    Cause.BREAKPOINTS: "no breakpoint (cache_control) is where the cached prefix can be found from. Keep one at the "
    "end of each request, and more where a turn adds over 20 blocks.",
    Cause.REASONING: "the API of this model leaves out the reasoning of earlier turns once the user speaks.",
    Cause.ROUTING: "the provider answered from a machine that had an older state. OpenAI asks for one "
    "prompt_cache_key for each session.",
    Cause.UPSTREAM: "the provider was down, so another one answered, which has a cache of its own.",
    Cause.UNEXPLAINED: "no change is known. If a proxy saw that all is the same, the provider lost its entry, or "
    "asked a machine that has none.",
}


_REPORTED: Final = {
    "model_changed": Cause.MODEL,
    "system_changed": Cause.SYSTEM,
    "tools_changed": Cause.TOOLS,
    "messages_changed": Cause.MESSAGES,
    "input_changed": Cause.MESSAGES,
    "context_compacted": Cause.COMPACTION,
    "prompt_cache_key_changed": Cause.SETTINGS,
    "reasoning_effort_changed": Cause.SETTINGS,
    "service_tier_changed": Cause.SETTINGS,
    "text_format_changed": Cause.SETTINGS,
    "verbosity_changed": Cause.SETTINGS,
}
"""Causes by the names of Anthropic (https://platform.claude.com/docs/en/build-with-claude/cache-diagnostics) and OpenAI
(https://developers.openai.com/api/docs/guides/prompt-caching/diagnostics). Neither says why an entry is gone."""


class Certainty(StrEnum):
    """How a cause is known: the provider named it, the event was recorded, or the end of the cached read implies it."""

    REPORTED = "reported"
    RECORDED = "recorded"
    INFERRED = "inferred"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a prefix was paid again.

    Attributes:
        cause: the cause.
        certainty: how it is known.
        evidence: what was compared, in words.
        diff: the lines that were removed (`-`) and added (`+`); empty if they are not known.
    """

    cause: Cause
    certainty: Certainty
    evidence: str
    diff: str = ""

    def to_dict(self) -> dict[str, str]:
        """Return it as JSON-able data."""
        diff = {"diff": self.diff} if self.diff else {}
        return {"cause": self.cause, "certainty": self.certainty, "evidence": self.evidence, **diff}

    def with_report(self, reason: str) -> Explanation:
        """Return it with the provider's report, which gives the cause if no other is known.

        Args:
            reason: the provider's word for the cause; an empty or unknown one changes nothing.
        """
        explanation = explain_reported(reason)
        if explanation is None:
            return self
        if self.cause is Cause.UNEXPLAINED:
            return explanation
        return replace(self, evidence=f"{self.evidence}; {explanation.evidence}")

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Explanation | None:
        """Return the explanation that `to_dict` wrote; None for other data."""
        try:
            evidence, diff = str(data["evidence"]), str(data.get("diff", ""))
            return cls(Cause(data["cause"]), Certainty(data["certainty"]), evidence, diff)
        except (KeyError, ValueError):
            return None


def explain_reported(reason: str) -> Explanation | None:
    """Return the explanation of a cache miss by a provider's word for its cause; None if the word is unknown."""
    cause = _REPORTED.get(reason)
    return None if cause is None else Explanation(cause, Certainty.REPORTED, f"the provider reported {reason}")


@dataclass(slots=True)
class CauseTotals:
    """What the requests of one cause paid again.

    Attributes:
        requests: number of the requests.
        dollars: their extra cost over reading the same tokens from the cache, where prices are known.
        priced: number of requests with a known price.
        certainty: the tokens that they paid again, by how the cause is known.
    """

    requests: int = 0
    dollars: float = 0.0
    priced: int = 0
    certainty: dict[Certainty, int] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        """All tokens that they paid again."""
        return sum(self.certainty.values())

    @property
    def weight(self) -> tuple[float, int]:
        """By what causes are ordered: dollars as far as they are known, then tokens."""
        return self.dollars, self.tokens

    def add(self, certainty: Certainty, tokens: int, dollars: float | None) -> None:
        """Count one more request; its dollars are None if its price is unknown."""
        self.requests += 1
        if dollars is not None:
            self.dollars += dollars
            self.priced += 1
        self.certainty[certainty] = self.certainty.get(certainty, 0) + tokens

    def merge(self, data: Mapping[str, Any]) -> None:
        """Count the requests of other totals, as `to_dict` returned them."""
        self.requests += data["requests"]
        self.dollars += data["dollars"]
        self.priced += data["priced"]
        for name, tokens in data["certainty"].items():
            certainty = Certainty(name)
            self.certainty[certainty] = self.certainty.get(certainty, 0) + tokens

    def to_dict(self) -> dict[str, Any]:
        """Return them as JSON-able data."""
        certainty = {str(name): tokens for name, tokens in self.certainty.items()}
        return {
            "requests": self.requests,
            "tokens": self.tokens,
            "dollars": self.dollars,
            "priced": self.priced,
            "certainty": certainty,
        }


def say_cost(totals: Mapping[Cause, CauseTotals]) -> str:
    """Return in a word what causes cost in all, with a sign for a bound; empty if no price is known.

    After a compaction it is an upper bound, because the summary is new.
    """
    priced, requests = sum(total.priced for total in totals.values()), sum(total.requests for total in totals.values())
    if not priced:
        return ""
    compacted = Cause.COMPACTION in totals and bool(totals[Cause.COMPACTION].priced)
    amount = sum(total.dollars for total in totals.values())
    return bounded_dollars(amount, at_least=priced < requests, at_most=compacted)


def merged_totals(rows: Iterable[Mapping[str, Any]]) -> dict[Cause, CauseTotals]:
    """Return the sums of several totals by cause, which are given as JSON-able data."""
    sums: dict[Cause, CauseTotals] = {}
    for row in rows:
        for cause, data in row.items():
            sums.setdefault(Cause(cause), CauseTotals()).merge(data)
    return sums
