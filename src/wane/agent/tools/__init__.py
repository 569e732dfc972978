"""The agent's tools."""

from __future__ import annotations

from typing import Final

from wane.core import DELIMITER, RECALL

FILE_TOOLS: Final = ("read_file", "write_file", "edit_file", "create_directory")
RIPGREP_TOOLS: Final = ("list_files", "grep")
PYTHON_TOOLS: Final = ("find_files", "search_files")

EDIT_TOOLS: Final = frozenset({"write_file", "edit_file", "create_directory"})
"""Tools that change files."""

SHELL_TOOL: Final = "shell"
"""The tool that runs commands."""

AGENT_TOOLS: Final = frozenset({*FILE_TOOLS, *RIPGREP_TOOLS, *PYTHON_TOOLS, SHELL_TOOL, DELIMITER, RECALL})
"""All tools that are not MCP servers'."""
