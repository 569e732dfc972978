"""`--shadow`: what Wane would have done in the sessions of a proxy that only watched."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wane.cli.failure import UsageError
from wane.cli.lab.commands import PRICE
from wane.cli.sessions.stores import with_store
from wane.core.errors import WaneError
from wane.proxy.store.base import Store
from wane.strategies.base import Settings, traits

if TYPE_CHECKING:
    from wane.conversation.context import ContextSettings
    from wane.lab.session import RecordedSession


@dataclass(frozen=True, slots=True)
class Shadow:
    """The settings that a watching proxy does not use, and where its sessions are.

    Attributes:
        store: where sessions are stored, as `open_store` reads it.
        context: how contexts would be managed.
    """

    store: str
    context: ContextSettings

    @classmethod
    def of(cls, context: ContextSettings, store: str | None) -> Shadow:
        """Return the shadow of a proxy.

        Args:
            context: how contexts would be managed.
            store: where sessions are stored; None for memory only.

        Raises:
            UsageError: if there is nothing to predict, a setting needs a tool, or the sessions cannot be read back.
        """
        if not traits(context.strategy).bounded:
            raise UsageError("--shadow says what a strategy would do, and --strategy none does nothing: name another")
        if context.recall or context.tasks:
            tool = "--recall" if context.recall else "--tasks"
            raise UsageError(f"--shadow gives the model no tool, so {tool} has no effect: leave it out")
        if store is None:
            raise UsageError("--shadow reads sessions back from their store: leave out --no-store")
        return cls(store, context)

    @property
    def watching(self) -> ContextSettings:
        """The settings of the proxy itself, which evicts nothing and gives the model no tool."""
        return replace(self.context, strategy="none", annotate="model", recall=False)

    def tell(self, sessions: Iterable[str]) -> list[str]:
        """Return sentences on what Wane would have done in sessions, given by their ids. It needs no event loop."""
        from wane.lab.shadow import predict

        recorded, unread = with_store(self.store, lambda store: _read(store, sessions))
        settings = Settings(
            budget=self.context.budget, policy=self.context.policy, tool_classes=self.context.tool_classes
        )
        try:
            prediction = predict(recorded, self.context.strategy, settings, PRICE)
        except WaneError as error:
            return [f"What Wane would have done cannot be told: {error}."]
        lines = ["No model has answered yet."] if prediction is None else prediction.lines
        return [*lines, *(f"Left out: {why}." for why in unread)]


async def _read(store: Store, sessions: Iterable[str]) -> tuple[list[RecordedSession], list[str]]:
    """Return the sessions of some ids, and why others cannot be read."""
    from wane.lab.readers.journal import session_of

    recorded, unread = [], []
    for session in sessions:
        try:
            recorded.append(session_of(await store.header(session), await store.read(session)))
        except WaneError as error:
            unread.append(str(error).rstrip("."))
    return recorded, unread
