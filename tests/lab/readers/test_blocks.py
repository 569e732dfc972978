"""What content holds besides text, and what it is reckoned to cost."""

from __future__ import annotations

import base64
import struct

import pytest

from wane.formats.anthropic import SEAL
from wane.formats.fields import sealed_tokens
from wane.formats.openai import NON_TEXT_TOKENS
from wane.lab.readers.building.content import DOCUMENT_TOKENS, content, image_tokens


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height)


def jpeg(width: int, height: int) -> bytes:
    app = b"\xff\xe0" + struct.pack(">H", 18) + bytes(16)
    table = b"\xff\xc4" + struct.pack(">H", 4) + bytes(2)
    return b"\xff\xd8" + app + table + b"\xff\xc2" + struct.pack(">HBHH", 17, 8, height, width) + bytes(10)


def webp(kind: bytes, body: bytes) -> bytes:
    return b"RIFF\0\0\0\0WEBP" + kind + bytes(4) + body


@pytest.mark.parametrize(
    "raw",
    [
        png(600, 300),
        b"GIF89a" + struct.pack("<HH", 600, 300),
        jpeg(600, 300),
        webp(b"VP8X", bytes(4) + (599).to_bytes(3, "little") + (299).to_bytes(3, "little")),
        webp(b"VP8L", b"\x2f" + (599 | 299 << 14).to_bytes(4, "little")),
        webp(b"VP8 ", bytes(6) + struct.pack("<HH", 600, 300)),
    ],
    ids=["png", "gif", "jpeg", "webp-x", "webp-l", "webp"],
)
def test_an_image_costs_by_its_size(raw: bytes) -> None:
    data = base64.b64encode(raw).decode()
    assert image_tokens(data) == 240
    assert image_tokens(f"data:image/png;base64,{data}") == 240


def test_a_large_image_is_scaled_down_and_an_unknown_one_costs_a_flat_sum() -> None:
    assert image_tokens(base64.b64encode(png(8000, 8000)).decode()) == 1600
    for data in ("https://example.org/a.png", "", None, base64.b64encode(b"\x89PNG").decode(), "a" * 5):
        assert image_tokens(data) == NON_TEXT_TOKENS


def test_content_is_text_and_an_estimate_for_the_rest() -> None:
    image = {"type": "image", "source": {"type": "base64", "data": base64.b64encode(png(600, 300)).decode()}}
    shown = content(
        [{"type": "text", "text": "a"}, image, {"type": "document", "source": {"type": "base64", "data": "x"}}, "b"]
    )
    assert shown == ("a\nb", 240 + DOCUMENT_TOKENS)
    assert content({"type": "document", "source": {"type": "text", "data": "words"}}) == ("words", 0)
    assert content([{"type": "input_audio", "data": "x"}]) == ("", NON_TEXT_TOKENS)
    assert content([{"type": "novel", "x": 1}, 7]) == ('{"type":"novel","x":1}\n7', 0)
    assert [content(value) for value in ("a", None, [], 5)] == [("a", 0), ("", 0), ("", 0), ("5", 0)]


def test_sealed_reasoning_is_reckoned_by_the_length_of_its_seal() -> None:
    assert sealed_tokens("", SEAL) == sealed_tokens("x" * 235, SEAL) == 0
    assert sealed_tokens("x" * (235 + 1600), SEAL) == 300
