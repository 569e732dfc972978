"""Opens a session of the agent from the command line's options, for chat and print mode."""

from __future__ import annotations

import logging
import os
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from wane.agent.config import Settings, load_settings
from wane.agent.options import AGENT_FORMAT
from wane.agent.session import AgentSession, SessionConfig
from wane.journal import SessionStore, default_root

if TYPE_CHECKING:
    from wane.agent.approval.permissions import Approver
    from wane.agent.options import AgentOptions


def store_of(options: AgentOptions) -> SessionStore:
    """Return the store of sessions."""
    return SessionStore(options.sessions or default_root(os.environ))


def config_of(options: AgentOptions, ask: Approver) -> SessionConfig:
    """Return the configuration of a session.

    Raises:
        ConfigError: for settings that cannot work.
    """
    return SessionConfig(
        cwd=options.cwd,
        settings=load_settings(options, os.environ),
        store=store_of(options) if options.save else None,
        ask=ask,
        chosen=frozenset(spec.name for spec in fields(Settings) if getattr(options, spec.name, None) is not None),
    )


def path_to_resume(options: AgentOptions) -> Path | None:
    """Return the session file that the options name; None for a new session.

    Raises:
        SessionNotFoundError: if there is no such session, or none to resume.
    """
    if options.continue_last:
        return store_of(options).latest(options.cwd, AGENT_FORMAT).path
    return store_of(options).find(options.resume) if options.resume else None


def open_session(options: AgentOptions, ask: Approver) -> AgentSession:
    """Begin or resume the session that the options ask for.

    Raises:
        WaneError: for settings, a model or a session that cannot be used; see `AgentSession`.
    """
    # asyncio warns about a child process that ends while it is being stopped, in the middle of the user's screen.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    config = config_of(options, ask)
    path = path_to_resume(options)
    return AgentSession.create(config) if path is None else AgentSession.resume(path, config)
