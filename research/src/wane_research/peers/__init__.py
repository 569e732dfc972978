"""Context managers of other libraries as strategies, run through their public API. Needs the `peers` extra.

Before every model call, as in real use, each gets the whole history in messages of its own library; what it sends is
read back as items. Messages are made once, and token counts are those of the items wherever the library takes a
counter. Results are not corrected: if a library breaks a rule, so does the view.

`wane.strategies.registry` loads them by name.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Final

from wane.research import MissingResearchError
from wane.strategies.base import Settings, Strategy

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
_DISTRIBUTIONS: Final = {
    "langchain": ("langchain", "langchain-core"),
    "harness": ("pydantic-ai-harness", "pydantic-ai-slim"),
    "openai_agents": ("openai-agents",),
    "strands": ("strands-agents",),
    "ctxkernel": ("ctxkernel",),
}

PEERS: Final = {name: description for name, (_, _, description) in _PEERS.items()}
"""One line on what each does, by name, in the order of reports."""


def installed_peers() -> tuple[str, ...]:
    """Return the peers whose libraries are installed, in the order of reports."""
    return tuple(name for name, (module, _, _) in _PEERS.items() if find_spec(_LIBRARIES.get(module, module)))


def libraries(name: str) -> tuple[str, ...]:
    """Return the distributions on which a strategy's view depends; none for one of Wane's own."""
    return _DISTRIBUTIONS[_PEERS[name][0]] if name in _PEERS else ()


def get_peer(name: str, settings: Settings) -> Strategy:
    """Return a new strategy for one session.

    `name`: one of `PEERS`.
    """
    module, maker_name, _ = _PEERS[name]
    try:
        # Loaded only on demand: the libraries are large.
        maker: Callable[[Settings], Strategy] = getattr(import_module(f"wane_research.peers.{module}"), maker_name)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("wane"):
            raise
        raise MissingResearchError(f"the strategy {name!r}", "peers") from error
    return maker(settings)
