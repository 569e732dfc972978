"""Make docs/cli.md, and a page for each command in docs/commands, from the commands' own help.

    python scripts/help_doc.py docs/cli.md            write them
    python scripts/help_doc.py --check docs/cli.md    exit with 1 if one is out of date

They are made from the texts and flags, not from terminal output, so they are the same on every machine and Python.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from generated import write_or_check
from wane.cli.command_registry import AGENT, find_commands
from wane.cli.help_pages import is_literal, paragraphs
from wane.cli.parser import Command
from wane.cli.shared_flags import VERSION
from wane.flags import Flag

MADE: Final = "<!-- Made by scripts/help_doc.py from the help texts; run `make docs` to update it. -->\n"
FOLDER: Final = "commands"
"""Where the pages of the commands are, beside the page that lists them."""


def documents(path: Path) -> dict[Path, str]:
    """Return all pages by their paths, from the path of the one that lists them."""
    grouped: dict[str, list[Command]] = {}
    for command in find_commands().commands:
        if command.extension is not None and command.extension.distribution != "wane-research":
            continue
        grouped.setdefault(command.name.partition(" ")[0], []).append(command)
    pages = {path: listing(grouped)}
    for name, commands in grouped.items():
        pages[path.parent / FOLDER / f"{name}.md"] = command_page(name, commands)
    return pages


def listing(grouped: dict[str, list[Command]]) -> str:
    """Return the page that lists the commands, with the agent's own options."""
    rows = []
    groups = find_commands().groups
    for name, commands in grouped.items():
        inner = [f"`{command.name.partition(' ')[2]}`" for command in commands if command.name != name]
        summary = paragraphs(groups[name])[0] if name in groups else commands[0].summary
        further = f": {', '.join(inner)}" if inner else ""
        rows.append(f"| [`{name}`]({FOLDER}/{name}.md){further} | {escape_cell(summary)} |")
    return "\n".join(
        (
            "# Commands\n",
            MADE,
            "`wane` alone starts [the agent](agent.md); its options stand below. Each command has a page.\n",
            "| command | what it does |\n|---|---|",
            *rows,
            "",
            *section(AGENT, "## ", (VERSION,)),
        )
    )


def command_page(name: str, commands: list[Command]) -> str:
    """Return the page of a command, with those of its group."""
    parts = []
    if commands[0].name != name:
        parts = [f"# wane {name}\n", MADE]
    for command in commands:
        first = command.name == name
        parts += section(command, "# " if first else "## ", note=MADE if first else "")
    return "\n".join(parts)


def section(command: Command, level: str, extra: Iterable[Flag] = (), note: str = "") -> Iterator[str]:
    """Yield the lines of one command, with more flags than its own, and with a note below its heading."""
    yield f"{level}{f'wane {command.name}'.rstrip()}\n"
    if note:
        yield note
    yield f"```\n{command.usage}\n```\n"
    if command.extension is not None:
        yield "Part of [`wane-research`](../install.md#research).\n"
    for paragraph in paragraphs(command.text):
        if not is_literal(paragraph):
            yield f"{' '.join(paragraph.split())}\n"
            continue
        heading, *lines = paragraph.split("\n")
        yield f"{heading}\n\n```"
        yield from (line.removeprefix("  ") for line in lines)
        yield "```\n"
    yield "| option | meaning |\n|---|---|"
    yield from (f"| `{flag.usage}` | {escape_cell(flag.help)} |" for flag in (*command.flags, *extra))
    yield ""


def escape_cell(text: str) -> str:
    """Return a text for a cell of a table, on one line."""
    return " ".join(text.split()).replace("|", "&#124;")


def main(args: list[str]) -> int:
    """Write the pages, or check them. A page of a command that is gone goes, too."""
    if "eval" not in find_commands().groups:
        print("the commands of wane-research are not installed, or from before a change: run `make .venv/.ready`")
        return 1
    path = Path(args[-1])
    pages = documents(path)
    folder = path.parent / FOLDER
    if "--check" not in args:
        folder.mkdir(exist_ok=True)
    gone = sorted(set(folder.glob("*.md")) - set(pages))
    for page in gone:
        if "--check" in args:
            print(f"{page} is of no command: run `make docs`", file=sys.stderr)
        else:
            page.unlink()
    outcomes = [write_or_check(page, text, args) for page, text in pages.items()]
    return max(*outcomes, int(bool(gone) and "--check" in args))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
