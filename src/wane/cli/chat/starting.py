"""Opens a session of the agent from the command line's options, for chat and print mode."""

from __future__ import annotations

import ctypes
import logging
import os
import sys
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wane.agent.config import AgentSettings, load_settings
from wane.agent.models import default_model, resolve_model
from wane.agent.options import AGENT_FORMAT, CHOOSE
from wane.agent.search_path import shield_path
from wane.cli.failure import UsageError
from wane.cli.terminal.text import plain_console
from wane.core.errors import WaneError
from wane.journal import SessionStore, default_root

if TYPE_CHECKING:
    from wane.agent.approval.permissions import Approver
    from wane.agent.options import AgentOptions
    from wane.agent.session import AgentSession


_SET_DUMPABLE: Final = 4  # of `prctl`


def session_store() -> SessionStore:
    return SessionStore(default_root(os.environ))


def choose_session(options: AgentOptions) -> AgentOptions:
    """Return the options with a session that the user chooses, if `--resume` was given without an id.

    Raises:
        EOFError: if the user chooses none.
    """
    if options.resume != CHOOSE:
        return options
    from prompt_toolkit import PromptSession

    from wane.cli.chat.slash_commands import choose_id, resumable, session_table

    infos = resumable(session_store(), options.cwd)
    if not infos:
        raise UsageError("this directory has no session to resume; start one with: wane")
    plain_console().print(session_table(infos, None))
    answer = PromptSession[str]().prompt("Resume which one? ").strip()
    return replace(options, resume=choose_id(infos, answer) or infos[0].id)


def check_options(options: AgentOptions) -> tuple[AgentSettings, Path | None]:
    """Return the settings of a start and the session to resume, after what can be checked without loading the agent."""
    shield_path(os.environ, options.cwd)
    settings = load_settings(options, os.environ)
    path: Path | None = None
    if options.continue_last:
        path = session_store().latest(options.cwd, AGENT_FORMAT).path
    elif options.resume:
        path = session_store().find(options.resume)
    if path is None and settings.model is None:
        default_model(os.environ)
    return settings, path


def load_agent(settings: AgentSettings) -> None:
    """Import the agent, and the client of its model, which takes most of a start."""
    import wane.agent.session
    import wane.cli.chat.recap  # noqa: F401

    # If something is wrong with the model, opening the session raises it again.
    with suppress(WaneError):
        resolve_model(settings.model or default_model(os.environ))


def hide_environment() -> None:
    """Keep other processes of the user from reading this one's environment and memory, which have the keys, on Linux.

    What the agent runs gets no key by its environment, but it could look here. Root can look all the same.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0)


def open_session(options: AgentOptions, settings: AgentSettings, path: Path | None, ask: Approver) -> AgentSession:
    """Begin or resume the session that the options ask for."""
    from wane.agent.session import AgentSession, SessionConfig

    hide_environment()
    # asyncio warns about a child process that ends while it is being stopped, in the middle of the user's screen.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    config = SessionConfig(
        cwd=options.cwd,
        settings=settings,
        store=session_store() if options.save else None,
        ask=ask,
        chosen=frozenset(spec.name for spec in fields(AgentSettings) if getattr(options, spec.name, None) is not None),
    )
    return AgentSession.create(config) if path is None else AgentSession.resume(path, config)
