"""`--shadow`: what Wane would have done in the sessions of a proxy that only watched."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from wane.cli.failure import UsageError
from wane.cli.lab.commands import PRICE
from wane.core.errors import WaneError
from wane.journal import SessionStore
from wane.strategies.base import Settings, traits

if TYPE_CHECKING:
    from wane.conversation.context import ContextSettings


@dataclass(frozen=True, slots=True)
class Shadow:
    """The settings that a watching proxy does not use, and where its sessions are.

    Attributes:
        root: the directory of the sessions.
        context: how contexts would be managed.
    """

    root: Path
    context: ContextSettings

    @classmethod
    def of(cls, context: ContextSettings, store: str | None) -> Shadow:
        """Return the shadow of a proxy.

        Args:
            context: how contexts would be managed.
            store: where sessions are stored.

        Raises:
            UsageError: if there is nothing to predict, or the sessions cannot be read back.
        """
        from wane.proxy.store import open_store
        from wane.proxy.store.disk import DiskStore

        if not traits(context.strategy).bounded:
            raise UsageError("--shadow tells what a strategy would do, and --strategy none does nothing: name another")
        opened = open_store(store)
        if not isinstance(opened, DiskStore):
            raise UsageError("--shadow reads sessions back from disk: give a directory as --store, or leave it out")
        return cls(opened.root, context)

    @property
    def watching(self) -> ContextSettings:
        """The settings of the proxy itself, which evicts nothing and gives the model no tool."""
        return replace(self.context, strategy="none", annotate="model", recall=False)

    def tell(self, sessions: Iterable[str]) -> list[str]:
        """Return sentences on what Wane would have done in sessions, given by their ids."""
        from wane.lab.shadow import predict

        store = SessionStore(self.root)
        paths = [path for session in sessions for path in store.matching(session)]
        if not paths:
            return ["No session has been stored yet."]
        settings = Settings(
            budget=self.context.budget, policy=self.context.policy, tool_classes=self.context.tool_classes
        )
        try:
            prediction = predict(paths, self.context.strategy, settings, PRICE)
        except WaneError as error:
            return [f"What Wane would have done cannot be told: {error}."]
        return ["No model has answered yet."] if prediction is None else prediction.lines
