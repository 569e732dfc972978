"""Scopes of the program around the model: a model's answers in a scope belong to its episode or task (R18)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar, Token
from functools import wraps
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from uuid import uuid4

from wane.core import ContextWindow, EpisodeType
from wane.core.errors import ConfigError, HistoryError
from wane.formats.notices import is_persons, stated_in
from wane.strategies.host import CLOSING, OPENING, HostMarker, HostScope

_F = TypeVar("_F", bound=Callable[..., Any])

_LIVE: Final[dict[str, HostScope]] = {}  # by id, the scopes that code of this process is in
_INNERMOST: Final[ContextVar[OpenScope | None]] = ContextVar("wane_scope", default=None)


class OpenScope:
    """An episode or a task of the program: a context manager, or a decorator of a function or coroutine function.

    Tasks and threads that are started in it are in it too, if they take over the context, as asyncio's tasks do.

    Args:
        owner: the object whose conversations it concerns.
        name: its name.
        type: `expl`, `act` or `task`.
        dependencies: for an act, names of the explorations that it builds on.
        check: called with the scope when it is entered, and may refuse it.
        id: tells it from others of the same name; empty for a new one. A scope that is entered again continues.

    Raises:
        ConfigError: for a name or a type that cannot be used.
    """

    def __init__(
        self,
        owner: object,
        name: str,
        type: str,  # noqa: A002 - the paper's word
        dependencies: Iterable[str] = (),
        check: Callable[[HostScope], object] | None = None,
        id: str = "",  # noqa: A002
    ) -> None:
        self.scope = new_scope(name, type, dependencies, id)
        self.owner = owner
        self._check = check
        self.outer: OpenScope | None = None
        self._token: Token[OpenScope | None] | None = None

    def __enter__(self) -> Self:
        if self._token is not None:
            raise HistoryError(f"the scope {self.scope.name!r} was entered before; make a new one")
        self.outer = _INNERMOST.get()
        around = scope_path(self.owner)
        if around and around[-1].type is not EpisodeType.TASK:
            raise HistoryError(
                f"{self.scope.name!r} begins in the episode {around[-1].name!r}, but only a task holds episodes; make "
                f"{around[-1].name!r} a task, or end it first"
            )
        if self._check is not None:
            self._check(self.scope)
        _LIVE[self.scope.id] = self.scope
        self._token = _INNERMOST.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _LIVE.pop(self.scope.id, None)
        assert self._token is not None
        with suppress(ValueError):  # a generator was closed in another context, whose scope is its own
            _INNERMOST.reset(self._token)

    def __call__(self, function: _F) -> _F:
        """Return the function, so that each of its calls is such an episode or task.

        Raises:
            ConfigError: for a generator, whose work begins only after the call has ended.
        """
        kinds = (function, getattr(function, "__call__", None))  # noqa: B004 - an object's, which may be a coroutine
        if any(isgeneratorfunction(kind) or isasyncgenfunction(kind) for kind in kinds):
            raise ConfigError(f"the episode {self.scope.name!r} cannot be a generator: enter it by `with` in its body")

        def again() -> OpenScope:
            scope = self.scope
            return OpenScope(self.owner, scope.name, scope.type, scope.dependencies, self._check)

        if any(map(iscoroutinefunction, kinds)):

            @wraps(function)
            async def coroutine(*args: Any, **named: Any) -> Any:
                with again():
                    return await function(*args, **named)

            return coroutine  # type: ignore[return-value]

        @wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            with again():
                return function(*args, **named)

        return call  # type: ignore[return-value]


class OpenEpisode(OpenScope):
    """An episode or a task of one conversation."""

    def __init__(
        self,
        owner: object,
        name: str,
        type: str,  # noqa: A002 - the paper's word
        dependencies: Iterable[str],
        check: Callable[[HostScope], object],
        describe: Callable[[HostScope, str], object],
    ) -> None:
        super().__init__(owner, name, type, dependencies, check)
        self._describe = describe

    def describe(self, text: str) -> None:
        """Append what was learned, or what came of a task: a notice that stays when the rest leaves.

        Raises:
            ConfigError: for an act, which has no description, and for an empty text.
            HistoryError: outside the scope, before the model's first answer, and while a call has no result.
        """
        value: object = text
        if self.scope.type is EpisodeType.ACT or not isinstance(value, str) or not text.strip():
            raise ConfigError(
                f"{self.scope.name!r} cannot be described by {text!r}: give an exploration or a task a text"
            )
        self._describe(self.scope, text)


def new_scope(name: str, type: str, dependencies: Iterable[str] = (), id: str = "") -> HostScope:  # noqa: A002
    """Return a scope.

    Args:
        name: its name.
        type: `expl`, `act` or `task`.
        dependencies: for an act, names of explorations.
        id: tells it from others of the same name; empty for a new one.

    Raises:
        ConfigError: for values that cannot be used.
    """
    value: object = name
    if not isinstance(value, str) or not name.strip():
        raise ConfigError(f"an episode's name is {name!r}; it must be text")
    if type not in [*EpisodeType]:
        raise ConfigError(f"the type of {name!r} is {type!r}; it must be one of: {', '.join(EpisodeType)}")
    names = _names(name, dependencies)
    if names and type != "act":
        raise ConfigError(f"{name!r} has dependencies, but only an act may have them; its type is {type!r}")
    return HostScope(id or uuid4().hex, name.strip(), EpisodeType(type), names)


def _names(name: str, dependencies: object) -> tuple[str, ...]:
    """Return the dependencies of an episode, each once."""
    if isinstance(dependencies, Iterable) and not isinstance(dependencies, str):
        names = [*dependencies]
        if all(isinstance(dependency, str) for dependency in names):
            return tuple(dict.fromkeys(dependency.strip() for dependency in names))
    raise ConfigError(f"the dependencies of {name!r} are {dependencies!r}; they must be a list of names")


def scope_path(owner: object) -> tuple[HostScope, ...]:
    """Return the owner's scopes that this code is in, the outer ones first."""
    scopes = list[HostScope]()
    innermost = _INNERMOST.get()
    while innermost is not None:
        # A scope that has ended may still be the context of what was started in it.
        if innermost.owner is owner and innermost.scope.id in _LIVE:
            scopes.append(innermost.scope)
        innermost = innermost.outer
    return tuple(reversed(scopes))


def live_scopes() -> Mapping[str, HostScope]:
    """Return the scopes of this process that have not ended, by id."""
    return _LIVE


def check_scope(scope: HostScope, owner: object, marker: HostMarker, window: ContextWindow) -> None:
    """Refuse a scope that cannot be opened now.

    Raises:
        HistoryError: for a name that was used, and for a dependency that is no exploration or has not ended.
    """
    if scope.name in marker.used or any(scope.name == outer.name for outer in scope_path(owner)):
        raise HistoryError(f"the conversation has an episode {scope.name!r} already; give this one another name")
    explored = set(marker.explored)
    for episode in window.open_marks:
        # An episode closes only ahead of the model's next item, but has ended with its scope.
        if episode.type is EpisodeType.EXPL and marker.open_scope(str(episode.name)) not in _LIVE:
            explored.add(str(episode.name))
    for dependency in scope.dependencies:
        if dependency not in explored:
            raise HistoryError(
                f"{scope.name!r} depends on {dependency!r}, which is no exploration of this conversation that has ended"
            )


def write_description(name: str, description: str) -> str:
    """Return a notice that holds the description of an episode."""
    content = description.replace(CLOSING, "[/system-reminder]")
    text = f"{OPENING}{content}{CLOSING}"
    # A description must not make it a user's turn or a standing notice (R15).
    if is_persons(text) or stated_in(text):
        return f"{OPENING}{name}: {content}{CLOSING}"
    return text


def write_scopes(scopes: Sequence[HostScope]) -> list[dict[str, Any]]:
    """Return scopes as JSON data, for a message's data about itself."""
    rows: list[dict[str, Any]] = []
    for scope in scopes:
        row = {"id": scope.id, "name": scope.name, "type": scope.type.value, "dependencies": [*scope.dependencies]}
        rows.append(row)
    return rows


def read_scopes(data: object) -> tuple[HostScope, ...] | None:
    """Return the scopes that `write_scopes` wrote; None for other data."""
    if not isinstance(data, list):
        return None
    try:
        return tuple(new_scope(**entry) for entry in data)
    except (TypeError, ConfigError):
        return None
