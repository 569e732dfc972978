"""Make docs/cli.md from the command's own help.

    python scripts/help_doc.py docs/cli.md            write it
    python scripts/help_doc.py --check docs/cli.md    exit with 1 if it is out of date

It is made from the texts and flags, not from terminal output, so it is the same on every machine and Python.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from generated import write_or_check
from wane.cli.flags import VERSION
from wane.cli.parser import Command, is_literal, paragraphs
from wane.cli.registry import AGENT, RESEARCH, installed
from wane.flags import Flag

HEAD = """\
# Command line

<!-- Made by scripts/help_doc.py from the help texts; run `make docs` to update it. -->
"""


def document() -> str:
    """Return the whole page."""
    parts = [HEAD, *section(AGENT, (VERSION,))]
    for command in installed()[0]:
        parts += section(command)
    return "\n".join(parts)


def section(command: Command, extra: Iterable[Flag] = ()) -> Iterator[str]:
    """Yield the lines of one command, with more flags than its own."""
    yield f"## {f'wane {command.name}'.rstrip()}\n\n```\n{command.usage}\n```\n"
    if command.name.partition(" ")[0] in RESEARCH:
        yield "Part of [`wane-research`](install.md#research).\n"
    for paragraph in paragraphs(command.text):
        if not is_literal(paragraph):
            yield f"{' '.join(paragraph.split())}\n"
            continue
        heading, *lines = paragraph.split("\n")
        yield f"{heading}\n\n```"
        yield from (line.removeprefix("  ") for line in lines)
        yield "```\n"
    yield "| option | meaning |\n|---|---|"
    yield from (f"| `{flag.usage}` | {flag.help.replace('|', '&#124;')} |" for flag in (*command.flags, *extra))
    yield ""


def main(args: list[str]) -> int:
    """Write the page, or check it."""
    return write_or_check(Path(args[-1]), document(), args)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
