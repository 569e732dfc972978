"""The strategies by name, for `--strategy`: Wane's own, and peers, which other distributions add by entry points."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pkgutil import resolve_name
from typing import Final

from wane.core import Policy
from wane.core.errors import ConfigError, MissingExtensionError
from wane.extensions import blame_extensions, find_extensions, missing_error
from wane.strategies.strategy import Resumable, Strategy, StrategySettings, Traits
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


def peer_names() -> tuple[str, ...]:
    """Return the strategies that other distributions add, in the order of reports."""
    return tuple(find_extensions("strategy", STRATEGY_NAMES))


def usable_peers() -> tuple[str, ...]:
    """Return the strategies of other distributions whose requirements are installed, in the order of reports.

    Raises:
        MissingExtensionError: if there are none.
        ExtensionError: for one that cannot be used for another reason.
    """
    names: list[str] = []
    for name in peer_names():
        with suppress(MissingExtensionError):
            strategy_class(name)
            names.append(name)
    if not names:
        raise missing_error("no strategy of another library is installed", "wane-research[peers]")
    return tuple(names)


def describe(name: str) -> str:
    """Return one line on what a strategy does.

    Raises:
        ConfigError: for an unknown name.
        ExtensionError: for an extension that cannot be used.
    """
    check_strategy(name)
    return strategy_class(name).summary


@cache
def strategy_class(name: str) -> type[Strategy]:
    """Return the class of a known strategy, which states its facts.

    Raises:
        ExtensionError: for an extension that cannot be used.
    """
    if name in _OURS:
        own_class: type[Strategy] = resolve_name(f"wane.strategies.{_OURS[name]}")
        return own_class
    extension = find_extensions("strategy", STRATEGY_NAMES)[name]
    loaded = extension.load()
    if not isinstance(loaded, type) or not issubclass(loaded, Strategy):
        raise extension.refusal(f"{extension.value} is no subclass of wane.strategies.strategy.Strategy")
    if loaded.__abstractmethods__:
        raise extension.refusal(f"its class lacks {', '.join(sorted(loaded.__abstractmethods__))}")
    if getattr(loaded, "name", None) != name or not loaded.summary:
        raise extension.refusal(f"its class needs the name {name!r} and a summary")
    return loaded


def traits(strategy: str) -> Traits:
    """Return what a strategy is, by its name; the defaults for an unknown one."""
    return strategy_class(strategy).traits if strategy in _OURS or strategy in peer_names() else Traits()


def check_live(strategy: object) -> str:
    """Return a strategy that a live agent can use.

    Raises:
        ConfigError: for an unknown name, and for a strategy that works in replays alone.
        ExtensionError: for an extension that cannot be used.
    """
    name = check_strategy(strategy)
    if name not in _OURS and not issubclass(strategy_class(name), Resumable):
        raise ConfigError(f"strategy {name!r} works in replays alone: no session under it could be resumed")
    return name


def check_unaided(strategy: str) -> str:
    """Return a strategy that a proxy can use: one that calls no model.

    Raises:
        ConfigError: for another one.
        ExtensionError: for an extension that cannot be used.
    """
    if not is_unaided(check_live(strategy)):
        names = ", ".join(filter(is_unaided, STRATEGY_NAMES))
        raise ConfigError(
            f"a proxy calls no model by itself, so it cannot run the strategy {strategy!r}; it runs {names}"
        )
    return strategy


def is_unaided(strategy: str) -> bool:
    """Whether a strategy calls no model."""
    return not traits(strategy).summarises


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
        name: one of `STRATEGY_NAMES`, or of `peer_names`.
        settings: its settings; the defaults if None.

    Raises:
        ConfigError: for an unknown name, or a tool class that cannot work.
        MissingExtensionError: for a strategy of a library that is not installed.
        ExtensionError: for an extension that cannot be used.
    """
    check_strategy(name)
    make: Callable[[StrategySettings], Strategy] = strategy_class(name)
    settings = StrategySettings() if settings is None else settings
    if name in _OURS:
        return make(settings)
    with blame_extensions():
        return make(settings)


def check_strategy(name: object) -> str:
    """Return the name of a strategy, if that is known.

    Raises:
        ConfigError: for an unknown name.
    """
    if isinstance(name, str) and (name in _OURS or name in peer_names()):
        return name
    peers = peer_names()
    hint = ", ".join(peers) or "and with wane-research those of other libraries"
    meant = ""
    if isinstance(name, str):
        from difflib import get_close_matches  # an error alone needs it

        known = [*STRATEGY_NAMES, *peers]
        words = [strategy_of_word(name), *get_close_matches(name, known, 1, 0.7)]
        meant = next((f"; did you mean {word}?" for word in words if word in known), "")
    raise ConfigError(f"strategy {name!r} is unknown; known: {', '.join(STRATEGY_NAMES)}, {hint}{meant}")
