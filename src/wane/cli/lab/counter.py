"""Chooses a counter that works here."""

from __future__ import annotations

from wane.cli.terminal.text import say
from wane.core import Counter
from wane.core.errors import CounterError
from wane.counters import get_counter


def usable_counter(name: str) -> Counter:
    """Return a counter by name; `chars`, with a warning, if that one cannot work here.

    Raises:
        ConfigError: for an unknown name.
    """
    try:
        return get_counter(name)
    except CounterError as error:
        say(f"warning: {error}. Counting with chars, one token for every four characters")
        return get_counter("chars")
