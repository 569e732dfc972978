"""What Claude Code attaches to a turn: files, reminders, messages queued while the agent worked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from wane.lab.readers.building.blocks import Content, content
from wane.lab.readers.building.values import items, mapping, text

# The model is told nothing of these, or nothing that the attachment holds.
_NOT_SENT: Final = frozenset(
    {
        "already_read_file",
        "command_permissions",
        "dynamic_skill",
        "goal_status",
        "hook_cancelled",
        "hook_error_during_execution",
        "hook_non_blocking_error",
        "hook_system_message",
        "prompt_snapshot",
        "structured_output",
    }
)
_TOLD_AFTER: Final = frozenset({"SessionStart", "UserPromptSubmit"})
"""Events whose hook output goes to the model."""

# Fields that hold an attachment's text.
_WORDS: Final = frozenset(
    {"content", "text", "snippet", "prompt", "planContent", "stdout", "message", "addedLines", "addedBlocks", "files"}
    | {"memories", "skills", "file", "blockingError"}
)


def attachment_text(attached: Mapping[str, Any], rendered: object) -> Content:
    """Return what an attachment told the model; empty if nothing.

    Args:
        attached: the attachment.
        rendered: the messages made from it, if the version of Claude Code records them. Older versions wrap the text in
            a sentence or two that they do not record.
    """
    if isinstance(rendered, list) and rendered:
        told = [content(mapping(message).get("content", message)) for message in rendered]
        return Content("\n".join(part.text for part in told), sum(part.extra_tokens for part in told))
    kind = text(attached.get("type"))
    if kind in _NOT_SENT or (kind == "hook_success" and text(attached.get("hookEvent")) not in _TOLD_AFTER):
        return Content("", 0)
    if kind == "queued_command":
        return content(attached.get("prompt"))
    if kind == "file" and mapping(mapping(attached.get("content")).get("file")).get("base64"):
        return content([{"type": "image", "data": mapping(attached["content"]["file"])["base64"]}])
    return Content("\n".join(_words(attached)), 0)


def _words(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for entry in items(value):
            yield from _words(entry)
    elif isinstance(value, dict):
        for key, entry in value.items():
            if key in _WORDS:
                yield from _words(entry)
