"""Make docs/cli.md from the command's own help.

    python scripts/help_doc.py docs/cli.md            write it
    python scripts/help_doc.py --check docs/cli.md    exit with 1 if it is out of date

It is made from the texts and flags, not from terminal output, so it is the same on every machine and Python.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from wane.cli import flags, texts
from wane.cli.flags import Flag
from wane.cli.help import usage
from wane.cli.main import COMMANDS

HEAD = """\
# Command line

<!-- Made by scripts/help_doc.py from the help texts; run `make docs` to update it. -->
"""


def document() -> str:
    """Return the whole page."""
    parts = [HEAD, *section("wane", usage(), texts.AGENT, (*flags.AGENT, flags.VERSION))]
    for command in COMMANDS:
        parts += section(f"wane {command.name}", usage(command.name, command.flags), command.text, command.flags)
    return "\n".join(parts)


def section(title: str, how: str, text: str, options: Iterable[Flag]) -> Iterator[str]:
    """Yield the lines of one command."""
    yield f"## {title}\n\n```\n{how}\n```\n"
    for paragraph in texts.paragraphs(text):
        if not texts.is_literal(paragraph):
            yield f"{' '.join(paragraph.split())}\n"
            continue
        heading, *lines = paragraph.split("\n")
        yield f"{heading}\n\n```"
        yield from (line.removeprefix("  ") for line in lines)
        yield "```\n"
    yield "| option | meaning |\n|---|---|"
    yield from (f"| `{flag.usage}` | {flag.help.replace('|', '&#124;')} |" for flag in options)
    yield ""


def main(args: list[str]) -> int:
    """Write the page, or check it."""
    check = "--check" in args
    path = Path(args[-1])
    page = document()
    if not check:
        path.write_text(page, encoding="utf-8")
        return 0
    if path.exists() and path.read_text(encoding="utf-8") == page:
        return 0
    print(f"{path} is out of date: run `make docs`", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
