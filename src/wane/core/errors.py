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

    @property
    def command(self) -> str:
        """A command to paste, which helps, and with which the message ends; empty if there is none."""
        return ""


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
        super().__init__(part, extra)
        self.part = part
        self.extra = extra

    @property
    def command(self) -> str:
        """The command that adds the extra to Wane as it was installed."""
        # How it was installed is on disk, and read for the message alone.
        from wane.installing import installation

        return installation().extras_line(self.extra)

    def __str__(self) -> str:
        return f'{self.part} needs the "{self.extra}" extra. Install it with: {self.command}'


class ExtensionError(WaneError):
    """An extension that cannot be used: it cannot be loaded, is not what it should be, or failed at its work."""


class MissingExtensionError(ExtensionError, ImportError):
    """An extension, or something that it needs, which is not installed.

    Args:
        missing: what is not there, in a sentence.
        command: what installs it.
    """

    def __init__(self, missing: str, command: str) -> None:
        super().__init__(missing, command)
        self._missing = missing
        self._command = command

    @property
    def command(self) -> str:
        """The command that installs it."""
        return self._command

    def __str__(self) -> str:
        return f"{self._missing}. Install it with: {self._command}"


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
