"""Names of the formats of recorded sessions. This module imports nothing, so that the command line can offer them."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

ReaderName: TypeAlias = Literal[
    "claude-code",
    "codex",
    "pi",
    "copilot-cli",
    "qwen-code",
    "kimi-code",
    "cline",
    "mistral-vibe",
    "gemini-cli",
    "opencode",
    "goose",
    "aider",
    "journal",
    "openai",
    "anthropic",
    "openai_responses",
    "gemini",
    "pydantic_ai",
    "atif",
]

READER_NAMES: Final[tuple[str, ...]] = get_args(ReaderName)
"""Formats that `wane.lab.readers.read_session` takes, besides `auto`."""

JOURNAL: Final = "journal"
"""The format of sessions that Wane itself recorded."""

MAX_UNPACKED: Final = 2 * 1024**3
"""Bytes that a compressed file may hold by default. A file of some kilobytes can hold more than any disk."""
