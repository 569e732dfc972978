"""The strategies by name, for `--strategy`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import Final

from wane.core import Policy
from wane.core.errors import ConfigError
from wane.research import MissingResearchError, is_research_installed, load_research
from wane.strategies.strategy import Strategy, StrategySettings, Traits
from wane.words import strategy_of_word

# The class of each strategy, which states its facts. A module is loaded when one of its strategies is asked for.
_OURS: Final = {
    "none": "none:Uncapped",
    "truncate": "truncate:Truncate",
    "streaming": "truncate:Streaming",
    "compact": "compact:Compact",
    "memgpt": "memgpt:MemGPT",
    "resum": "resum:ReSum",
    "acon": "acon:Acon",
    "clear-tools": "clear_tools:ClearTools",
    "mask": "clear_tools:Mask",
    "fold": "fold:Fold",
    "paper": "window_strategy:PaperStrategy",
    "cwl": "window_strategy:CwlStrategy",
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
    return _class_of(name).summary if name in _OURS else peers()[name]


@cache
def _class_of(name: str) -> type[Strategy]:
    """Return the class of one of Wane's own strategies."""
    module, _, attribute = _OURS[name].partition(":")
    strategy_class: type[Strategy] = getattr(import_module(f"wane.strategies.{module}"), attribute)
    return strategy_class


def traits(strategy: str) -> Traits:
    """Return what a strategy is, by its name."""
    return _class_of(strategy).traits if strategy in _OURS else Traits()


def repeats(strategy: str, doer: str) -> bool:
    """Whether one strategy can repeat what another did."""
    return strategy == doer or (traits(strategy).by_episode and traits(doer).by_episode)


def policy_of(strategy: str, policy: Policy, low_water: float | None = None) -> Policy:
    """Return the policy that a strategy evicts by: its own, or else the one given.

    Args:
        strategy: name of the strategy.
        policy: the policy given.
        low_water: its `low_water`, if another one was chosen; see `StrategySettings`.
    """
    if (own := traits(strategy).policy) is not None:
        return own
    return policy if low_water is None else replace(policy, low_water=low_water)


def get_strategy(name: str, settings: StrategySettings | None = None) -> Strategy:
    """Return a new strategy for one session.

    Args:
        name: one of `STRATEGY_NAMES`, or of `peers`.
        settings: its settings; the defaults if None.

    Raises:
        ConfigError: for an unknown name, or a tool class that cannot work.
        MissingResearchError: for a strategy of a library that is not installed.
    """
    check_strategy(name)
    settings = StrategySettings() if settings is None else settings
    if name in _OURS:
        make: Callable[[StrategySettings], Strategy] = _class_of(name)
        return make(settings)
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
        meant = strategy_of_word(name) if isinstance(name, str) else ""
        meant = f"; did you mean {meant}?" if meant in _OURS else ""
        raise ConfigError(f"strategy {name!r} is unknown; known: {', '.join(STRATEGY_NAMES)}, {hint}{meant}")
