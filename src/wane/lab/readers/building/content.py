"""The content of messages, as text or blocks, and the output of a model call, whose parts may need each other."""

from __future__ import annotations

import base64
import binascii
import gc
import math
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Final, NamedTuple

from wane.core import Kind, chars
from wane.formats.anthropic import SEAL
from wane.formats.coupling import NAMED, SIGNED, UNTIED, couple_parts
from wane.formats.fields import compact, sealed_tokens
from wane.formats.message_format import Part
from wane.formats.openai import NON_TEXT_TOKENS
from wane.lab.readers.building.values import mapping, text, write_arguments

_IMAGES: Final = frozenset({"image", "input_image", "image_url", "computer_screenshot"})
_DOCUMENTS: Final = frozenset({"document", "input_file", "file"})
_TEXTS: Final = ("text", "refusal", "tool_name")


# Python 3.11 takes five times as long to look up a member of an enumeration as a name.
_CALL: Final = Kind.CALL
_REASONING: Final = Kind.REASONING
_RESULT: Final = Kind.RESULT
_TEXT: Final = Kind.TEXT

_FIGURES_ALONE: ContextVar[bool] = ContextVar("_FIGURES_ALONE", default=False)


@contextmanager
def figures_alone() -> Iterator[None]:
    """Read sessions for their figures: of results and of what models wrote, keep the size and not the text.

    That is most of a recording. The size is that of `wane.core.chars`, in `Part.extra_tokens`. Such parts name no tool
    and no call, and need no other part; whether a person gave a result (R21) is not told.

    Meanwhile nothing looks for cycles of objects in this process: reading makes none, and looking takes a tenth of it.
    """
    token, collected = _FIGURES_ALONE.set(True), gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        _FIGURES_ALONE.reset(token)
        if collected:
            gc.enable()


def keeps_text() -> bool:
    """Return whether sessions are read with all of their text; see `figures_alone`."""
    return not _FIGURES_ALONE.get()


@lru_cache(maxsize=4096)
def part_of_size(kind: Kind, tokens: int) -> Part:
    """Return a part of which the size alone is kept; parts of one size are one object."""
    return Part(kind, extra_tokens=tokens)


class Content(NamedTuple):
    """The content of an item; falsy if it is empty."""

    text: str
    extra_tokens: int = 0

    def __bool__(self) -> bool:
        return bool(self.text or self.extra_tokens)

    def part(
        self, kind: Kind, *, call_id: str | None = None, system: bool = False, shows_nothing: bool = False
    ) -> Part:
        """Return the part with this content; see `Part`."""
        if kind is _RESULT and _FIGURES_ALONE.get():
            # Now, so that results are not held until the file is read.
            return Part(kind, call_id=call_id, extra_tokens=self.extra_tokens + chars(self.text))
        extra = self.extra_tokens
        return Part(kind, self.text, call_id, extra_tokens=extra, system=system, shows_nothing=shows_nothing)

    @classmethod
    def join_contents(cls, several: Iterable[Content]) -> Content:
        """Return several contents as one, with their texts on separate lines."""
        contents = list(several)
        lines = [content.text for content in contents if content.text]
        return cls("\n".join(lines), sum(content.extra_tokens for content in contents))


def content(value: object) -> Content:
    """Return the content of a message or result, given as a string, a block, a list of blocks, or anything else.

    A block of an unknown kind becomes its JSON, so that nothing is lost.
    """
    if isinstance(value, str):
        return Content(value)
    if isinstance(value, dict):
        value = [value]
    if not isinstance(value, list):
        return Content("" if value is None else compact(value))
    return _block(value[0]) if len(value) == 1 else Content.join_contents(map(_block, value))


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
        url = block.get("image_url")
        data = mapping(block.get("source")).get("data") or block.get("data") or mapping(url).get("url") or url
        return Content("", image_tokens(data))
    if kind in _DOCUMENTS:
        source = mapping(block.get("source"))
        if isinstance(source.get("data"), str) and source.get("type") == "text":
            return Content(source["data"])
        if isinstance(source.get("content"), str | list):
            return content(source["content"])
        return Content("", DOCUMENT_TOKENS)
    if "audio" in kind or "video" in kind:
        return Content("", NON_TEXT_TOKENS)
    return Content(compact(block))


DOCUMENT_TOKENS: Final = 3_000
"""Flat estimate for a document such as a PDF, whose pages are sent as text and image, in tokens."""

_PIXELS_PER_TOKEN: Final = 750  # Anthropic's rule; OpenAI's tiles come close
_LONGEST_SIDE: Final = 1568  # pixels; larger images are scaled down to it
_MOST_TOKENS: Final = 1_600
_HEAD: Final = 65_536  # base64 characters, a multiple of four: a JPEG may carry a thumbnail before its size
_DATA_URL: Final = re.compile(r"data:[^,]{0,200};base64,")


def image_tokens(data: object) -> int:
    """Return an estimate of an image's tokens in a request.

    Args:
        data: the image in base64, or a data URL; anything else gets a flat estimate.
    """
    size = _size(_head(data)) if isinstance(data, str) else None
    if size is None or min(size) <= 0:
        return NON_TEXT_TOKENS
    width, height = size
    scale = min(1.0, _LONGEST_SIDE / max(width, height))
    return min(_MOST_TOKENS, math.ceil(width * scale * height * scale / _PIXELS_PER_TOKEN))


def _head(data: str) -> bytes:
    match = _DATA_URL.match(data)
    start = match.end() if match else 0
    try:
        return base64.b64decode(data[start : start + _HEAD])
    except (binascii.Error, ValueError):
        return b""


def _size(head: bytes) -> tuple[int, int] | None:
    """Return width and height in pixels; None for an unknown format."""
    try:
        if head.startswith(b"\x89PNG"):
            return struct.unpack_from(">II", head, 16)
        if head.startswith(b"GIF8"):
            return struct.unpack_from("<HH", head, 6)
        if head.startswith(b"\xff\xd8"):
            return _jpeg_size(head)
        if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
            return _webp_size(head)
    except (struct.error, IndexError):
        pass
    return None


def _jpeg_size(head: bytes) -> tuple[int, int] | None:
    position = 2
    while head[position] == 0xFF:
        marker = head[position + 1]
        # Start of frame; the three other markers of that range are tables.
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack_from(">HH", head, position + 5)
            return width, height
        position += 2 + int(struct.unpack_from(">H", head, position + 2)[0])
    return None


def _webp_size(head: bytes) -> tuple[int, int] | None:
    kind = head[12:16]
    if kind == b"VP8X":
        return 1 + int.from_bytes(head[24:27], "little"), 1 + int.from_bytes(head[27:30], "little")
    if kind == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", head, 26)
        return width & 0x3FFF, height & 0x3FFF
    return None


class Answer:
    """The output of one model call, collected block by block; empty text and empty reasoning are left out."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.signed: list[int] = []  # positions of signed reasoning

    def text(self, content: Content) -> None:
        """Append the model's words."""
        if content:
            self.parts.append(content.part(_TEXT))

    def reasoning(self, words: str, seal: object = None, *, signed: bool = False) -> None:
        """Append the model's reasoning; `seal` is its encrypted form, which gives the size of reasoning without text.

        Providers recognise `signed` reasoning by its signature.
        """
        extra = 0 if words else sealed_tokens(seal, SEAL)
        if words or extra:
            if signed:
                self.signed.append(len(self.parts))
            self.parts.append(Part(_REASONING, words, extra_tokens=extra))

    def call(self, call_id: object, tool: object, arguments: object) -> None:
        """Append a call: its id, the tool's name, and the arguments as text or JSON data."""
        self.parts.append(Part(_CALL, call_id=text(call_id), tool=text(tool), arguments=write_arguments(arguments)))

    def extend(self, answer: Answer) -> None:
        """Append the parts of another answer that this one does not hold."""
        for position, part in enumerate(answer.parts):
            # Comparing all of two parts takes long, and most are of different kinds.
            if part not in [own for own in self.parts if own.kind is part.kind]:
                if position in answer.signed:
                    self.signed.append(len(self.parts))
                self.parts.append(part)

    def couple_parts(self) -> list[Part]:
        """Return the parts with what must stay together (R12)."""
        if _FIGURES_ALONE.get() or not any(part.kind is _REASONING for part in self.parts):
            return list(self.parts)
        return couple_parts(self.parts, [SIGNED if n in self.signed else UNTIED for n in range(len(self.parts))])


def couple_items(parts: Sequence[Part]) -> list[Part]:
    """Return an answer of OpenAI's Responses, in which reasoning and the item after it need each other."""
    if _FIGURES_ALONE.get():
        return list(parts)
    return couple_parts(parts, [NAMED if part.kind is _REASONING else UNTIED for part in parts])
