"""Message content: a string or a list of blocks, as Anthropic, OpenAI Responses and pi write it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from wane.core import Kind
from wane.formats.base import Part
from wane.formats.openai import NON_TEXT_TOKENS
from wane.formats.values import compact
from wane.lab.readers.building.images import DOCUMENT_TOKENS, image_tokens
from wane.lab.readers.building.values import mapping, text

_IMAGES: Final = frozenset({"image", "input_image", "image_url", "computer_screenshot"})
_DOCUMENTS: Final = frozenset({"document", "input_file", "file"})
_TEXTS: Final = ("text", "refusal", "tool_name")


class Content(NamedTuple):
    """The content of an item; false if there is none.

    Attributes:
        text: its text.
        extra_tokens: an estimate for its other content, in tokens.
    """

    text: str
    extra_tokens: int = 0

    def __bool__(self) -> bool:
        return bool(self.text or self.extra_tokens)

    def part(self, kind: Kind, *, call_id: str | None = None, system: bool = False) -> Part:
        """Return the part with this content; see `Part`."""
        return Part(kind, self.text, call_id=call_id, extra_tokens=self.extra_tokens, system=system)

    @classmethod
    def joined(cls, several: Iterable[Content]) -> Content:
        """Return several contents as one, their texts on lines of their own."""
        contents = list(several)
        return cls("\n".join(it.text for it in contents if it.text), sum(it.extra_tokens for it in contents))


def content(value: object) -> Content:
    """Return the content of a message or a result.

    A block of an unknown kind becomes its JSON, so that nothing is lost.

    Args:
        value: a string, a list of blocks, or whatever is recorded instead.
    """
    if isinstance(value, str):
        return Content(value)
    if isinstance(value, dict):
        value = [value]
    if not isinstance(value, list):
        return Content("" if value is None else compact(value))
    return Content.joined(map(_block, value))


def _block(block: object) -> Content:
    if isinstance(block, str):
        return Content(block)
    if not isinstance(block, dict):
        return Content(compact(block))
    for key in _TEXTS:
        if isinstance(block.get(key), str):
            return Content(block[key])
    kind = text(block.get("type"))
    if kind in _IMAGES:
        source, url = mapping(block.get("source")), block.get("image_url")
        return Content("", image_tokens(source.get("data") or block.get("data") or mapping(url).get("url") or url))
    if kind in _DOCUMENTS:
        return _document(block)
    if "audio" in kind or "video" in kind:
        return Content("", NON_TEXT_TOKENS)
    return Content(compact(block))


def _document(block: Mapping[str, Any]) -> Content:
    source = mapping(block.get("source"))
    if isinstance(source.get("data"), str) and source.get("type") == "text":
        return Content(source["data"])
    if isinstance(source.get("content"), str | list):
        return content(source["content"])
    return Content("", DOCUMENT_TOKENS)
