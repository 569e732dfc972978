"""The strategies by name, for `--strategy`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Final

from wane.core.errors import ConfigError, MissingExtraError
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
_PEERS: Final = {
    "langchain-trim": ("langchain", "LangChainTrim", "LangChain's trim_messages: the last messages that fit"),
    "langchain-edit": ("langchain", "LangChainEdit", "LangChain's ContextEditingMiddleware, clearing tool uses"),
    "harness-window": ("harness", "HarnessWindow", "pydantic-ai-harness's SlidingWindowCompaction"),
    "harness-clear": ("harness", "HarnessClear", "pydantic-ai-harness's ClearToolResults"),
    "openai-agents-trim": ("openai_agents", "OpenAIAgentsTrim", "OpenAI Agents' ToolOutputTrimmer, without a budget"),
    "strands-window": ("strands", "StrandsWindow", "Strands' SlidingWindowConversationManager, at the budget"),
    "ctxkernel": ("ctxkernel", "CtxKernel", "ctxkernel's ContextEngine: what its log proves dead goes"),
}
_LIBRARIES: Final = {"harness": "pydantic_ai_harness", "openai_agents": "agents"}  # where the name is another one

STRATEGY_NAMES: Final = tuple(_OURS)
"""Wane's own strategies, in the order of reports."""

PEER_NAMES: Final = tuple(_PEERS)
"""Strategies of other libraries, which need the `peers` extra."""


def installed_peers() -> tuple[str, ...]:
    """Return the peers whose libraries are installed, in the order of reports."""
    return tuple(name for name, (module, _, _) in _PEERS.items() if find_spec(_LIBRARIES.get(module, module)))


def describe(name: str) -> str:
    """Return one line on what a strategy does.

    Raises:
        ConfigError: for an unknown name.
    """
    _check(name)
    return (_OURS | _PEERS)[name][2]


def get_strategy(name: str, settings: Settings | None = None) -> Strategy:
    """Return a new strategy for one session.

    Args:
        name: one of `STRATEGY_NAMES` or `PEER_NAMES`.
        settings: its settings; the defaults if None.

    Raises:
        ConfigError: for an unknown name, or a tool class that cannot work.
        MissingExtraError: for a peer whose library is not installed.
    """
    _check(name)
    settings = Settings() if settings is None else settings
    if traits(name).by_episode:
        from wane.strategies.window import WindowStrategy

        return WindowStrategy(name, settings, policy_of(name, settings.policy, settings.low_water))
    if name in _OURS:
        module, made, _ = _OURS[name]
        return _maker(f"wane.strategies.{module}", made)(settings)
    module, made, _ = _PEERS[name]
    try:
        return _maker(f"wane.strategies.peers.{module}", made)(settings)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("wane"):
            raise
        raise MissingExtraError(f"the strategy {name!r}", "peers") from error


def _maker(module: str, made: str) -> Callable[[Settings], Strategy]:
    # Loaded only on demand: some import large libraries.
    maker: Callable[[Settings], Strategy] = getattr(import_module(module), made)
    return maker


def _check(name: str) -> None:
    if name not in _OURS and name not in _PEERS:
        raise ConfigError(
            f"strategy {name!r} is unknown; known: {', '.join(STRATEGY_NAMES)}, "
            f'and with the "peers" extra: {", ".join(PEER_NAMES)}'
        )
