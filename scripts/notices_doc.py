"""Make the tables of docs/notices.md from the marks; the text before them is written by hand.

    python scripts/notices_doc.py docs/notices.md            write them
    python scripts/notices_doc.py --check docs/notices.md    exit with 1 if they are out of date

A row is a mark; see `wane.formats.notices`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from generated import write_or_check
from wane.formats.notices import MARKS, MarkForm, NoticeMark

BEGIN = "<!-- Made from wane.formats.notices by scripts/notices_doc.py; run `make docs` to update them. -->\n"


def document(page: str) -> str:
    """Return the page with tables of the present marks."""
    head, _, _ = page.partition(BEGIN)
    return "\n".join([head + BEGIN, *chain.from_iterable(table(client, rows) for client, rows in MARKS.items())])


def table(client: str, rows: Iterable[NoticeMark]) -> Iterator[str]:
    """Yield the table of one client."""
    yield f"## {client}\n\n| what | the text … | where | standing | seen in |\n|---|---|---|---|---|"
    for row in rows:
        what = f"{row.what} (**the user's**)" if row.form is MarkForm.PERSON else row.what
        where = "system messages" if row.system else "any"
        yield f"| {what} | {how(row)} | {where} | {describe_standing(row)} | {row.source} |"
    yield ""


def describe_standing(row: NoticeMark) -> str:
    """Describe what a notice with a mark states for as long as it is in force."""
    if row.standing is None:
        return ""
    return f"adds to: {row.standing.kind}" if row.standing.adds else row.standing.kind


def how(row: NoticeMark) -> str:
    """Describe the place of a mark in a text."""
    mark, end = _code(row.mark), _code(row.end)
    match row.form:
        case MarkForm.SECTION:
            return f"is a section from {mark} to {end}"
        case MarkForm.LINE:
            return f"is a line after sections: {mark}"
        case MarkForm.WHOLE:
            return f"is {mark}"
        case MarkForm.MEDIA:
            return f"is {mark}, with the images and files behind it"
        case MarkForm.BEHIND:
            return f"follows a tool's result that begins with {mark}"
        case _:
            return f"begins with {mark}" + (f" and ends with {end}" if row.end else "")


def _code(text: str) -> str:
    return f"`{text.replace(chr(10), '⏎')}`"


def main(args: list[str]) -> int:
    """Write the tables, or check them."""
    path = Path(args[-1])
    return write_or_check(path, document(path.read_text(encoding="utf-8")), args)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
