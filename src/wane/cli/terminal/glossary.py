"""The words of tables and reports, with their meanings: for `wane words`, and `?` in the chat."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from itertools import chain
from typing import Final

from rich.console import Console
from rich.table import Table

from wane.cli.failure import OK
from wane.cli.terminal.tables import plain_table
from wane.cli.terminal.text import plain_console
from wane.cli.top_commands import WordsOptions
from wane.core.errors import ConfigError
from wane.words import CAUSES, GLOSSARY, HEADINGS, LEVELS, SETTINGS, STRATEGIES, TYPES, explain_term


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
        meanings = list(meanings_of(term))
        if not meanings:
            words = chain(GLOSSARY, SETTINGS, chain.from_iterable(chain(*table.items()) for table, _ in _KINDS))
            near = get_close_matches(term.strip().lower(), [*words, *HEADINGS.values()], 1)
            guess = f"; did you mean {near[0]}?" if near else "."
            raise ConfigError(f"no word {term.strip()!r} is explained{guess} Without a word, all are listed")
        for word, meaning in meanings:
            console.print(f"{word}: {meaning}.", highlight=False)
        return
    console.print(_table_of(GLOSSARY.items()))
    console.print("\nIn JSON, settings and options:", style="bold")
    named = chain.from_iterable(table.items() for table in (STRATEGIES, HEADINGS, TYPES, LEVELS, CAUSES))
    console.print(_table_of((words, name) for name, words in named if words != name))


_KINDS: Final = (
    (STRATEGIES, "a strategy"),
    (TYPES, "a kind of episode"),
    (LEVELS, "a level"),
    (CAUSES, "why a provider's cache broke"),
)


def meanings_of(term: str) -> Iterator[tuple[str, str]]:
    """Yield the meanings of a term, a heading or a name of JSON, each with the word that people see."""
    from wane.lab.columns import COLUMNS, SWEPT

    text = term.strip()
    if meaning := explain_term(text):
        yield text, meaning
    for column in {column.name: column for column in (*COLUMNS, *SWEPT)}.values():
        if text.lower() in (column.name, column.title) and column.title not in GLOSSARY:
            yield column.title, column.help
    for table, kind in _KINDS:
        for name, words in table.items():
            if words != name and text.lower() in (name, words.lower()):
                yield words, f"{kind}; in JSON, settings and options {name}"


def _table_of(rows: Iterable[tuple[str, str]]) -> Table:
    table = plain_table("", "*")
    table.show_header = False
    for row in rows:
        table.add_row(*row)
    return table
