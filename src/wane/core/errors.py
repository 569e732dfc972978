"""Every error that Wane raises, in one tree.

    WaneError(Exception)
    ├── ConfigError(ValueError)      a setting that cannot work: budget, policy, tool class
    ├── HistoryError(ValueError)     a history that no provider would accept: an orphan or doubled result
    ├── FormatError(ValueError)      input that is not in the message format it claims
    ├── UnknownEpisodeError(KeyError) no episode of that name
    ├── CounterError(RuntimeError)   a token counter that cannot work here
    ├── MissingExtraError(ImportError) a part of Wane whose extra is not installed
    ├── ExtensionError                  an extension that cannot be used
    │   └── MissingExtensionError(ImportError) one that needs something that is not installed
    └── JournalError(RuntimeError)   a session on disk
        ├── SessionNotFoundError     no such session
        ├── SessionLockedError       another process writes it
        ├── CorruptJournalError      a line in the middle is damaged
        └── JournalVersionError      written by another version of Wane

A message says what was wrong, with the value, and what to do about it.
"""

from __future__ import annotations


class WaneError(Exception):
    """Base of all errors that Wane raises on purpose."""


class ConfigError(WaneError, ValueError):
    """A setting that cannot work: a budget of zero, an unknown tool class, a share above one."""


class HistoryError(WaneError, ValueError):
    """A history that no provider would accept, such as a result without its call."""


class FormatError(WaneError, ValueError):
    """Input that is not in the message format it claims."""


class UnknownEpisodeError(WaneError, KeyError):
    """No episode of that name has been started in this session."""

    def __str__(self) -> str:
        # KeyError quotes its argument; ours is a sentence.
        return str(self.args[0]) if self.args else ""


class CounterError(WaneError, RuntimeError):
    """A token counter that cannot work here; the message says what to do instead."""


class MissingExtraError(WaneError, ImportError):
    """A part of Wane whose extra is not installed.

    Args:
        part: what needs it, as a user would call it.
        extra: the extra of the `wane` distribution to install.
    """

    def __init__(self, part: str, extra: str) -> None:
        super().__init__(f'{part} needs the "{extra}" extra. Install it with: pip install "wane[{extra}]"')
        self.part = part
        self.extra = extra

    def __reduce__(self) -> tuple[type[MissingExtraError], tuple[str, str]]:
        # By default, unpickling passes the message alone, which `__init__` does not accept.
        return type(self), (self.part, self.extra)


class ExtensionError(WaneError):
    """An extension that cannot be used: it cannot be loaded, is not what it should be, or failed at its work."""


class MissingExtensionError(ExtensionError, ImportError):
    """An extension, or something that it needs, which is not installed. The message says how to install it."""


class JournalError(WaneError, RuntimeError):
    """A session on disk that cannot be used as asked."""


class SessionNotFoundError(JournalError):
    """No session of that id, or no session at all, in the folder searched."""


class SessionLockedError(JournalError):
    """Another process is writing this session."""


class CorruptJournalError(JournalError):
    """A line in the middle of a session file is damaged; nothing was changed on disk."""


class JournalVersionError(JournalError):
    """Another version of Wane wrote the session, in a format or with records that this one does not read."""
