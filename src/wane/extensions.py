"""What other distributions add to Wane by entry points: strategies, readers, stores and commands.

    [project.entry-points."wane.strategies"]
    newest = "newest:Newest"

`importlib.metadata` reads them too, but importing it takes a third of the time of `wane --help`. Here, the files are
read in some milliseconds. An extension is loaded when its name is asked for. One that cannot be used is refused by
name, and nothing of Wane's own is ever replaced.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pkgutil import resolve_name
from types import TracebackType
from typing import Any, Final, Literal

from wane.core.errors import ExtensionError, MissingExtensionError, WaneError

Kind = Literal["strategy", "reader", "store", "command"]
"""What an extension can be."""

GROUPS: Final[Mapping[str, Kind]] = {
    "wane.strategies": "strategy",
    "wane.readers": "reader",
    "wane.stores": "store",
    "wane.commands": "command",
}
"""Kinds of extensions, by their groups of entry points."""

_FOLDER: Final = re.compile(r"([\w.]+?)(?:-([^-]+))?(?:-.*)?\.(?:dist|egg)-info")
_VALUE: Final = re.compile(r"([\w.]+(?::[\w.]+)?)\s*(?:\[(.*)\])?")


def missing_error(text: str, requirement: str) -> MissingExtensionError:
    """Return the error for a distribution that is not installed.

    Args:
        text: what needs it, in a sentence without its full stop.
        requirement: the distribution, with the extras that it takes.
    """
    from wane.installing import installation

    return MissingExtensionError(text, installation().package_line(requirement))


@dataclass(frozen=True, slots=True)
class Extension:
    """An entry point of another distribution.

    Attributes:
        kind: what it adds.
        name: the name that users give.
        value: `module:object`, and in brackets the extras of the distribution that it needs.
        distribution: the distribution's name.
        version: its version; empty if unknown.
        rival: another distribution that adds this name, too; empty if none does.
    """

    kind: Kind
    name: str
    value: str
    distribution: str
    version: str = ""
    rival: str = ""

    def load(self) -> Any:
        """Import and return the object.

        Raises:
            MissingExtensionError: if something that it needs is not installed.
            ExtensionError: if it cannot be loaded.
        """
        if self.rival:
            raise self.refusal(
                f"{self.rival} adds this {self.kind}, too", f"remove {self.distribution} or {self.rival}"
            )
        match = _VALUE.fullmatch(self.value)
        if match is None:
            raise self.refusal(f"its entry point is {self.value!r}, not 'module:object'")
        return self.resolve(match[1])

    def resolve(self, name: str) -> Any:
        """Return an object of the extension by its name, `module:object`; see `load` for its errors."""
        try:
            return resolve_name(name)
        except ExtensionError:
            raise
        except ModuleNotFoundError as error:
            library = (error.name or "").partition(".")[0]
            if library in ("", "wane", self._package):
                raise self.refusal(str(error)) from error
            match = _VALUE.fullmatch(self.value)
            extras = f"[{match[2]}]" if match and match[2] else ""
            text = f"the {self.kind} {self.name!r} needs {library}, which is not installed"
            raise missing_error(text, self.distribution + extras) from error
        except Exception as error:
            raise self.fault(error) from error

    def refusal(self, reason: str, advice: str = "") -> ExtensionError:
        """Return the error to raise for a reason, with what to do about it."""
        distribution = self.distribution
        advice = advice or f"upgrade {distribution}, or remove it"
        origin = f"{distribution} {self.version}".strip()
        return ExtensionError(f"the {self.kind} {self.name!r} of {origin} cannot be used: {reason}; {advice}")

    def fault(self, error: Exception) -> ExtensionError:
        """Return the error to raise for one that the extension raised: what it was, and where."""
        at = [f"{os.path.basename(file)}:{line}" for module, file, line in _frames(error) if self.owns(module)]
        where = f" ({at[-1]})" if at else ""
        return self.refusal(f"{type(error).__name__}: {error}{where}")

    def owns(self, module: str) -> bool:
        """Whether a module is of its package."""
        return module.partition(".")[0] == self._package

    @property
    def _package(self) -> str:
        return re.split(r"[.:]", self.value, maxsplit=1)[0]


def find_extensions(kind: Kind, own: Collection[str]) -> Mapping[str, Extension]:
    """Return what other distributions add, by name; what has a name of Wane's own is left out: see `find_replacing`.

    Args:
        kind: the kind of extensions.
        own: the names of Wane's own.
    """
    return {name: extension for name, extension in _read_path(tuple(sys.path))[kind].items() if name not in own}


def find_replacing(kind: Kind, own: Collection[str]) -> Iterator[tuple[str, ExtensionError]]:
    """Yield the names of Wane's own that extensions have, with the error that says that these are never used."""
    for name, extension in _read_path(tuple(sys.path))[kind].items():
        if name in own:
            yield name, extension.refusal(f"Wane has a {kind} of this name")


@contextmanager
def blame_extensions() -> Iterator[None]:
    """Turn an error that comes out of an extension's code into an ExtensionError with its name.

    Errors of Wane's tree and of the system pass: an extension raises them for what a user can mend.
    """
    try:
        yield
    except (WaneError, OSError):
        raise
    except Exception as error:
        modules = [module for module, _, _ in _frames(error)]
        for kind in GROUPS.values():
            for extension in _read_path(tuple(sys.path))[kind].values():
                if any(map(extension.owns, modules)):
                    raise extension.fault(error) from error
        raise


def _frames(error: BaseException) -> Iterator[tuple[str, str, int]]:
    """Yield the module, the file and the line of each frame that an error passed, the outermost first."""
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        yield str(frame.f_globals.get("__name__")), frame.f_code.co_filename, trace.tb_lineno
        trace = trace.tb_next


@lru_cache(maxsize=4)
def _read_path(path: tuple[str, ...]) -> Mapping[Kind, Mapping[str, Extension]]:
    """Read the entry points of the distributions on a path; the first of a name counts, as in an import."""
    extensions: dict[Kind, dict[str, Extension]] = {kind: {} for kind in GROUPS.values()}
    distributions: set[str] = set()
    for folder in dict.fromkeys(entry or "." for entry in path):
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        for match in filter(None, map(_FOLDER.fullmatch, names)):
            if match[1] in distributions:
                continue
            distributions.add(match[1])
            for group, name, value in read_entry_points(f"{folder}/{match[0]}/entry_points.txt"):
                kind = GROUPS[group]
                rival = extensions[kind][name].distribution if name in extensions[kind] else ""
                distribution = match[1].replace("_", "-")
                extensions[kind][name] = Extension(kind, name, value, distribution, match[2] or "", rival)
    return extensions


def read_entry_points(file: str) -> Iterator[tuple[str, str, str]]:
    """Yield the group, the name and the value of each of Wane's entry points in a file, which need not exist."""
    try:
        with open(file, encoding="utf-8") as stream:
            lines = [line.strip() for line in stream]
    except (OSError, UnicodeDecodeError):
        return
    group = ""
    for line in lines:
        if line.startswith("["):
            group = line.strip("[] ")
        elif group in GROUPS and "=" in line and not line.startswith(("#", ";")):
            name, _, value = line.partition("=")
            yield group, name.strip(), value.strip()
