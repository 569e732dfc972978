"""A reader of a format with a line of JSON for each postcard: who wrote it, and what."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wane.core import Kind
from wane.formats.message_format import Part
from wane.lab.readers.building.builder import SessionBuilder
from wane.lab.readers.building.json_lines import records
from wane.lab.readers.places import Place
from wane.lab.recorded_session import CallUsage, RecordedSession

NAME = "postcard"
TITLE = "Postcards"
PLACES = (Place("POSTCARDS_HOME", ".postcards", ("*.jsonl",)),)


def recognises(head: Sequence[object]) -> bool:
    return any(isinstance(value, Mapping) and "postcard" in value for value in head)


def about(lines: Sequence[Mapping[str, Any]]) -> tuple[str, str | None]:
    return next((line["postcard"] for line in lines), ""), None


def read(path: Path) -> list[RecordedSession]:
    builder = SessionBuilder(path.stem, NAME)
    for line, card in records(path, builder.problems):
        if card.get("from") == "me":
            builder.add(Part(Kind.USER, card["postcard"]), line=line)
        else:
            usage = CallUsage(input=card["paid"], output=10)
            builder.answer([Part(Kind.TEXT, card["postcard"])], usage=usage, model="claude-sonnet-4-5", line=line)
    return [builder.build()]
