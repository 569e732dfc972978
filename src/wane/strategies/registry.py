"""The strategies by name, for `--strategy`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final

from wane.core.errors import ConfigError
from wane.research import MissingResearchError, is_research_installed, load_research
from wane.strategies.base import Settings, Strategy, policy_of, traits

_OURS: Final = {
    "none": ("none", "Uncapped", "everything is sent, whatever the budget"),
    "truncate": ("truncate", "Truncate", "the oldest messages go, whatever they hold"),
    "streaming": ("truncate", "streaming", "the first messages and the latest stay, as StreamingLLM keeps tokens"),
    "compact": ("compact", "Compact", "the model writes a summary that replaces all but the most recent messages"),
    "memgpt": ("memgpt", "MemGPT", "the oldest messages are flushed into a recursive summary, and searchable (MemGPT)"),
    "resum": ("resum", "ReSum", "everything becomes the question and a summary, and work starts again (ReSum)"),
    "acon": ("acon", "Acon", "guidelines compress long tool results as they come, and then the history (ACON)"),
    "clear-tools": (
        "clear_tools",
        "ClearTools",
        "old tool results are cleared, as in Anthropic's context editing",
    ),
    "mask": ("clear_tools", "mask", "all but the latest ten tool results become placeholders (observation masking)"),
    "fold": ("fold", "Fold", "a finished episode collapses at once to its end (Context-Folding)"),
    "paper": ("window", "", "episodes are evicted in the smallest steps (the paper's Algorithm 1, with R6)"),
    "cwl": ("window", "", "episodes are evicted in batches, by the default policy or the one given"),
}

STRATEGY_NAMES: Final = tuple(_OURS)
"""Wane's own strategies, in the order of reports."""


def peers() -> Mapping[str, str]:
    """Return one line on each strategy of another library, by name, in the order of reports; none without research."""
    strategies: Mapping[str, str] = load_research("peers:PEERS") if is_research_installed() else {}
    return strategies


def installed_peers() -> tuple[str, ...]:
    """Return the strategies whose libraries are installed, in the order of reports.

    Raises:
        MissingResearchError: if there are none.
    """
    names: tuple[str, ...] = load_research("peers:installed_peers")() if is_research_installed() else ()
    if not names:
        raise MissingResearchError("a strategy of another library", "peers")
    return names


def describe(name: str) -> str:
    """Return one line on what a strategy does.

    Raises:
        ConfigError: for an unknown name.
    """
    check_strategy(name)
    return _OURS[name][2] if name in _OURS else peers()[name]


def get_strategy(name: str, settings: Settings | None = None) -> Strategy:
    """Return a new strategy for one session.

    Args:
        name: one of `STRATEGY_NAMES`, or of `peers`.
        settings: its settings; the defaults if None.

    Raises:
        ConfigError: for an unknown name, or a tool class that cannot work.
        MissingResearchError: for a strategy of a library that is not installed.
    """
    check_strategy(name)
    settings = Settings() if settings is None else settings
    if traits(name).by_episode:
        from wane.strategies.window import WindowStrategy

        return WindowStrategy(name, settings, policy_of(name, settings.policy, settings.low_water))
    if name in _OURS:
        module, attribute, _ = _OURS[name]
        maker: Callable[[Settings], Strategy] = getattr(import_module(f"wane.strategies.{module}"), attribute)
        return maker(settings)
    peer: Strategy = load_research("peers:get_peer")(name, settings)
    return peer


def check_strategy(name: object) -> None:
    """Check that a strategy is known.

    Raises:
        ConfigError: for an unknown name.
    """
    if not isinstance(name, str) or (name not in _OURS and name not in peers()):
        others = peers()
        hint = ", ".join(others) or "and with wane-research those of other libraries"
        raise ConfigError(f"strategy {name!r} is unknown; known: {', '.join(STRATEGY_NAMES)}, {hint}")
