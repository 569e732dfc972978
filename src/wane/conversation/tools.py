"""The tools and the instructions that a model gets from a conversation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from wane.core import DELIMITER
from wane.core.delimiter import DESCRIPTION, SCHEMA
from wane.recall import RECALL, RECALL_DESCRIPTION, RECALL_SCHEMA


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool whose calls a conversation answers.

    Attributes:
        name: its name.
        description: what the model reads about it.
        schema: JSON schema of its arguments.
    """

    name: str
    description: str
    schema: Mapping[str, Any]


DELIMITER_TOOL: Final = Tool(DELIMITER, DESCRIPTION, SCHEMA)
RECALL_TOOL: Final = Tool(RECALL, RECALL_DESCRIPTION, RECALL_SCHEMA)

RECALL_ALONE: Final = (
    "Your context window is limited: old parts of this conversation leave it. "
    "To see exactly what has left, `recall` it by a search rather than redo it."
)
"""Instructions for a model that can recall but does not mark its work."""
