"""The words that people see, in one table: for tables and help in the terminal, for pages, and for the docs.

The rules, the paper and JSON keep their own names: the strategy `cwl`, the column `recall`, the level `none`. Whoever
shows one of these to a person takes its words from here. `docs/glossary.md` has the same tables; a test compares them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

STRATEGIES: Final[Mapping[str, str]] = {"cwl": "Wane", "none": "nothing set aside", "recorded": "as recorded"}
"""What a strategy is called; others are called by their names."""

TYPES: Final[Mapping[str, str]] = {"expl": "reading", "act": "work", "task": "task"}
"""What kinds of episodes are called."""

LEVELS: Final[Mapping[str, str]] = {"none": "complete", "remove": "removed"}
"""How far an episode has been stripped (R9); other levels are called by their names."""

CAUSES: Final[Mapping[str, str]] = {
    "idle": "A pause longer than the cache lives",
    "model": "Another model was chosen",
    "tools": "The tools changed",
    "system": "The system prompt changed",
    "settings": "A setting changed",
    "head": "The beginning was not read",
    "messages": "The client changed earlier messages",
    "branch": "You went back to an earlier message",
    "compaction": "The client compacted",
    "eviction": "Content was set aside",
    "breakpoints": "A mark of the cache was missing",
    "reasoning": "Earlier reasoning was left out",
    "routing": "The provider asked another machine",
    "upstream": "Another provider answered",
    "unexplained": "Not known",
}
"""Why a provider's cache broke."""

HEADINGS: Final[Mapping[str, str]] = {
    "again": "fetched again",
    "total": "cost in all",
    "recall": "still in view",
    "grounding": "edits with the file in view",
    "turns": "your messages kept",
    "breaks": "cache rewrites",
}
"""The heading of a column of a comparison; others are headed by their names."""

EFFECTS: Final[Mapping[str, str]] = {
    "keep": "stays in view until you release or drop it, even where the view is over the budget",
    "drop": "leaves the view with the next request, once it has ended and no work in view needs it",
    "": "is evicted like any other again",
}
"""What becomes of an episode by a person's choice (R23); the empty one takes either back."""

PURPOSES: Final[Mapping[str, str]] = {
    "plan": "What would leave the agent's context now to make it smaller, and why.",
    "replay": (
        "What these sessions would have cost with each way to keep the context small, and how much of what was needed "
        "later the model would still have seen."
    ),
    "sweep": (
        "What these sessions would have cost with the context kept to each of several sizes, and how much of what was "
        "needed later the model would still have seen."
    ),
    "tune": "How large to let the context grow for work like this, and why.",
    "doctor": "Where what had been paid for once was paid for again.",
}
"""What a report shows, as its first sentence and without a term."""

GLOSSARY: Final[Mapping[str, str]] = {
    "artifact": "a tool call whose output the environment can produce again: reads, commands, unknown tools",
    "budget": "tokens that the view may hold, 80,000 by default; absolute, or a percentage of the model's window",
    "bulk": "a tool call that searches or lists; its output is the cheapest to lose",
    "cache": (
        "what a provider keeps of the beginning of a prompt, to bill it at a fraction of the price when it comes again"
    ),
    "call": "one request to the model, with its answer",
    "compaction": "a model's summary in the place of the conversation",
    "episode": "a named stretch of work, from an accepted start to its end: reading, or work that changes something",
    "evicted": "left out of the view by a pass. The history keeps it, and the agent can fetch it again",
    "eviction": "leaving an item out of the view. The history keeps it",
    "eviction saved": (
        "what it saved not to send what was set aside; what it cost to write the cache again is taken off"
    ),
    "frontier": "what nothing else beats: whatever is cheaper keeps less in view",
    "history": "everything that happened in a session, in order; append-only",
    "index": "the text that lists what has left the view",
    "level": "how far an episode has been stripped: reasoning, bulk, artifact, removed",
    "low water": "the share of the budget down to which a pass evicts; 0.3 by default",
    "mark": "a call with which the agent says where a piece of its work begins or ends",
    "marks cost": ("what it cost that the agent notes where its work begins and ends, and fetches content again"),
    "notice": (
        "text that the client, not a person, put in the user's place: reminders, files shown again, command output. It "
        "may be evicted, unless it comes before the model's first answer or is standing"
    ),
    "overflow": (
        "what a pass does if finished work is not enough: it takes the oldest calls and texts of unfinished work"
    ),
    "pass": "one run of the policy, before a model call",
    "piece of work": "calls that belong together: reading, or work that changes something; an episode",
    "policy": "the settings that decide what a pass takes, and how far it goes",
    "prologue": "the agent's work before its first accepted start",
    "recall": "reading evicted content again, exactly: by the name of its episode, or by a search",
    "set aside": "evicted: left out of the next requests, and kept by the history; the agent can fetch it again",
    "strategy": "a way to keep the budget: Wane's own is `cwl`; others are there for comparison",
    "strip": "to take an episode out of the view level by level: reasoning, bulk, artifacts, then all of it",
    "token": "the unit in which models count and bill text: about four characters",
    "unmarked": "said of work outside named pieces of work; it counts as reading, and leaves the view a turn at a time",
    "view": "the items that the next model call sends",
    "whole history": "what a request would hold if nothing were set aside",
}
"""What the terms mean that people meet in the terminal and on pages, in order."""


SETTINGS: Final[Mapping[str, str]] = {
    "low water": GLOSSARY["low water"],
    "order": "which piece of work goes first: `last_use`, the one used longest ago, or `paper`, work before reading",
    "guard": "the share of the room that holds the newest work, which a pass spares if it can",
    "evict when cold": "whether a pass runs early when the provider's cache has expired and it costs nothing extra",
}
"""What the settings mean that a tuning tries; the underscores of their names are spaces."""


def name_strategy(name: str) -> str:
    """Return what a strategy is called."""
    return STRATEGIES.get(name, name)


def strategy_of_word(word: str) -> str:
    """Return the strategy that is called so; empty if none is."""
    return next((name for name, label in STRATEGIES.items() if label.lower() == word.strip().lower()), "")


def name_level(name: str) -> str:
    """Return how far an episode has been stripped, in words."""
    return LEVELS.get(name, name)


def explain_term(text: str) -> str:
    """Return the meaning of a term, or of what a figure is called; empty if there is none."""
    word = text.strip().lower()
    return (
        GLOSSARY.get(word)
        or SETTINGS.get(word.replace("_", " "))
        or GLOSSARY.get(re.sub(r"(?<=s)es$|s$", "", word), "")
    )
