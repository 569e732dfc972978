"""The words of tables and reports, with their meanings: for `wane words`, and `?` in the chat."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import chain

from rich.console import Console
from rich.table import Table

from wane.cli.commands import WordsOptions
from wane.cli.failure import OK
from wane.cli.terminal.tables import plain_table
from wane.cli.terminal.text import plain_console
from wane.core.errors import ConfigError
from wane.words import GLOSSARY, HEADINGS, LEVELS, STRATEGIES, TYPES, explain_term


def print_words(options: WordsOptions) -> int:
    """Print the meaning of a term, or of all."""
    show_words(plain_console(), " ".join(options.term))
    return OK


def show_words(console: Console, term: str = "") -> None:
    """Show the meaning of a term, or of all and what they are called in JSON.

    Raises:
        ConfigError: if there is no such term.
    """
    if term:
        meaning = explain_term(term)
        if not meaning:
            near = get_close_matches(term.strip().lower(), GLOSSARY, 1)
            guess = f"did you mean {near[0]}? " if near else ""
            raise ConfigError(f"no word {term.strip()!r} is explained; {guess}without a word, all are listed")
        console.print(f"{term.strip()}: {meaning}.", highlight=False)
        return
    console.print(_table_of(GLOSSARY.items()))
    console.print("\nIn JSON, settings and options:", style="bold")
    named = chain.from_iterable(table.items() for table in (STRATEGIES, HEADINGS, TYPES, LEVELS))
    console.print(_table_of((words, name) for name, words in named if words != name))


def _table_of(rows: Iterable[tuple[str, str]]) -> Table:
    table = plain_table("", "*")
    table.show_header = False
    for row in rows:
        table.add_row(*row)
    return table
