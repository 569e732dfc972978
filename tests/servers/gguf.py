"""Makes a model small: a GGUF file without all but the first of its layers.

What the model answers is noise then, but its server does with requests what it always does, in a thirtieth of the time.
The format is described at https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import BinaryIO

_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Bytes of a value by its type, but for text (8) and lists (9)."""
_TEXT, _LIST = 8, 9
_LATER = re.compile(rb"blk\.[1-9]")
_LAYERS = b".block_count"


def shorten(model: Path, shortened: Path) -> None:
    """Write a model with its first layer only."""
    with model.open("rb") as file:
        magic, version, tensor_count, field_count = struct.unpack("<4sIQQ", file.read(24))
        fields = [_field(file) for _ in range(field_count)]
        tensors = [_tensor(file) for _ in range(tensor_count)]
        start = _align_offset(file.tell())
        offsets = sorted(offset for _, _, offset in tensors)
        end = model.stat().st_size - start
        sizes = dict(zip(offsets, [*offsets[1:], end], strict=True))
        kept = [tensor for tensor in tensors if not _LATER.match(tensor[0])]
        with shortened.open("wb") as out:
            out.write(struct.pack("<4sIQQ", magic, version, len(kept), field_count))
            out.writelines(fields)
            offset = 0
            for name, shape, old in kept:
                out.write(_text(name) + shape + struct.pack("<Q", offset))
                offset += _align_offset(sizes[old] - old)
            for _, _, old in kept:
                out.write(bytes(_align_offset(out.tell()) - out.tell()))
                file.seek(start + old)
                out.write(file.read(sizes[old] - old))


def _field(file: BinaryIO) -> bytes:
    """Return the bytes of a field; the number of layers is 1 in it."""
    key = _read_text(file)
    kind = file.read(4)
    value = _value(file, struct.unpack("<I", kind)[0])
    return _text(key) + kind + (struct.pack("<I", 1) if key.endswith(_LAYERS) else value)


def _value(file: BinaryIO, kind: int) -> bytes:
    if kind == _TEXT:
        return _text(_read_text(file))
    if kind != _LIST:
        return file.read(_SIZES[kind])
    head = file.read(12)
    of, count = struct.unpack("<IQ", head)
    if of in _SIZES:
        return head + file.read(_SIZES[of] * count)
    return head + b"".join([_value(file, of) for _ in range(count)])


def _tensor(file: BinaryIO) -> tuple[bytes, bytes, int]:
    """Return a tensor's name, the bytes of its shape and type, and where its data begin."""
    name = _read_text(file)
    dimensions = file.read(4)
    shape = file.read(8 * struct.unpack("<I", dimensions)[0] + 4)
    return name, dimensions + shape, struct.unpack("<Q", file.read(8))[0]


def _read_text(file: BinaryIO) -> bytes:
    return file.read(struct.unpack("<Q", file.read(8))[0])


def _text(content: bytes) -> bytes:
    return struct.pack("<Q", len(content)) + content


def _align_offset(offset: int) -> int:
    return -(-offset // 32) * 32
