"""Names of the formats of recorded sessions. This module imports nothing."""

from __future__ import annotations

from typing import Final

READER_NAMES: Final = (
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
)
"""Wane's own readers; `wane.lab.readers.reading.reader_names` has those of other distributions, too."""

JOURNAL: Final = "journal"
"""The format of sessions that Wane itself recorded."""

MAX_UNPACKED: Final = 2 * 1024**3
"""Bytes that a compressed file may hold by default. A file of some kilobytes can hold more than any disk."""
