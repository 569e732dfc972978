"""Token counters by name: `chars`, and `tiktoken` if its extra is installed."""

from __future__ import annotations

import threading
from typing import Final

from wane.core import Counter, chars
from wane.core.errors import ConfigError, CounterError, MissingExtraError

COUNTER_NAMES: Final = ("chars", "tiktoken")
"""Names for `get_counter`; `tiktoken:ENCODING` selects an encoding."""

DEFAULT_ENCODING: Final = "o200k_base"

LOAD_SECONDS = 15.0
"""Seconds that tiktoken may take to load its vocabulary, from the network or the cache."""


def get_counter(name: str) -> Counter:
    """Return a token counter by name.

    Args:
        name: `chars`, `tiktoken`, or `tiktoken:ENCODING`.

    Raises:
        ConfigError: for an unknown name.
        MissingExtraError: if `tiktoken` is not installed.
        CounterError: if tiktoken does not know the encoding, or cannot load its vocabulary in time.
    """
    if name == "chars":
        return chars
    kind, _, encoding = name.partition(":")
    if kind == "tiktoken":
        return _tiktoken(encoding or DEFAULT_ENCODING)
    raise ConfigError(f"counter {name!r} is unknown; known: {', '.join(COUNTER_NAMES)}")


def _tiktoken(encoding: str) -> Counter:
    try:
        import tiktoken
    except ImportError:
        raise MissingExtraError("the tiktoken counter", "tiktoken") from None
    # Encodings registered in this process count too, though tiktoken does not list them.
    names = sorted({*tiktoken.list_encoding_names(), *tiktoken.registry.ENCODINGS})
    if encoding not in names:
        raise CounterError(f"tiktoken does not know the encoding {_shorten(encoding)!r}; known: {', '.join(names)}")
    loaded: list[tiktoken.Encoding] = []
    failed: list[Exception] = []

    def load() -> None:
        try:
            loaded.append(tiktoken.get_encoding(encoding))
        except Exception as error:  # any error of the download is reported below
            failed.append(error)

    # tiktoken downloads its vocabulary without a timeout when it is not cached.
    thread = threading.Thread(target=load, daemon=True)
    thread.start()
    thread.join(LOAD_SECONDS)
    if not loaded:
        reason = str(failed[0]) if failed else f"no answer within {LOAD_SECONDS:g} s"
        raise CounterError(
            f"tiktoken's {encoding!r} vocabulary could not be loaded ({_shorten(reason)}). It is downloaded once "
            "and then works offline from the folder in TIKTOKEN_CACHE_DIR; meanwhile use the `chars` counter"
        )
    encode = loaded[0].encode_ordinary
    return lambda text: len(encode(text))


def _shorten(text: str, limit: int = 120) -> str:
    return text if len(text) <= limit else f"{text[:limit]}…"
