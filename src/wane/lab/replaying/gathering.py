"""Reads the sessions that a user names, and notes unreadable files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from wane.core import Counter, chars
from wane.core.errors import FormatError, JournalError, MissingExtraError, SessionNotFoundError
from wane.inference import is_annotated
from wane.lab.counting import count
from wane.lab.readers import briefly, find_files, join, read_file, without_sub_agents
from wane.lab.replaying.replay import Pricing, Subject
from wane.lab.session import RecordedSession
from wane.strategies.base import Annotate, AnnotateChoice


@dataclass(frozen=True, slots=True)
class Found:
    """A session and its origin.

    Attributes:
        session: the session.
        path: its file; `-` for standard input, empty if it was joined.
        parent: for a sub-agent's session, the name of the session that started it.
    """

    session: RecordedSession
    path: str
    parent: str | None = None


@dataclass(frozen=True, slots=True)
class Unread:
    """A file of a folder or pattern without a readable session.

    Attributes:
        path: the file.
        why: the problem.
    """

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class Gathered:
    """The content of a user's paths.

    Attributes:
        found: the sessions, in the order of the paths and of the files in each.
        idle: sessions without a model call, which leave nothing to replay.
        unread: files that were skipped.
    """

    found: tuple[Found, ...]
    idle: tuple[Found, ...] = ()
    unread: tuple[Unread, ...] = ()


@dataclass(frozen=True, slots=True)
class Studied:
    """A session prepared for replays.

    Attributes:
        found: the session and its origin.
        subject: the session, counted and indexed.
        annotate: who marks its episodes.
        pricing: prices and cache rules of its replays.
        own_price: whether these are of the model that it recorded.
    """

    found: Found
    subject: Subject
    annotate: Annotate
    pricing: Pricing
    own_price: bool = False

    @property
    def inferred(self) -> bool:
        """Whether episodes are inferred, because none are marked."""
        return self.annotate == "infer"

    def to_dict(self) -> dict[str, Any]:
        """Return the session's figures as JSON-able data."""
        material, session = self.subject.material, self.found.session
        return {
            "name": session.name,
            "source": session.source,
            "path": self.found.path,
            "parent": self.found.parent,
            "title": session.title,
            "cwd": session.cwd,
            "model_calls": len(session.calls),
            "tokens": sum(item.tokens for item in material.items),
            "overhead_tokens": material.overhead,
            "tokens_from_usage": material.calibrated,
            "user_turns": len(session.user_turns),
            "compactions": len(session.compactions),
            "summary_tokens": self.subject.summary_tokens,
            "annotation": "inferred" if self.inferred else "agent",
            "price": self.pricing.prices.name if self.own_price else None,
            "joined": len(session.starts),
            "sidechains": [side.name for side in session.sidechains],
            "problems": [{"line": problem.line, "what": problem.what} for problem in session.problems],
        }


def gather(
    paths: Iterable[str | Path],
    format: str = "auto",  # noqa: A002 - the field's word
    *,
    sidechains: bool = False,
    joined: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Gathered:
    """Read the sessions of some paths; a file that is named twice is read once.

    Args:
        paths: files, folders, patterns, or `-` for standard input.
        format: their format, see `wane.lab.readers.read_session`.
        sidechains: whether sessions of sub-agents count as sessions of their own.
        joined: whether to join all sessions into one.
        progress: called with the number of files read, and the number of all files.

    Raises:
        SessionNotFoundError: if a path matches no file.
        JournalError: if a file given by name cannot be read.
        FormatError: if a file given by name is in an unknown format, or all files of a folder or pattern are.
        MissingExtraError: if the format of a file given by name needs an extra that is not installed.
    """
    files, named = _files(paths)
    found: list[Found] = []
    unread: list[Unread] = []
    for number, file in enumerate(files):
        try:
            found += [Found(session, str(file)) for session in read_file(file, format)]
        except (FormatError, JournalError, MissingExtraError) as error:
            if file in named:
                raise
            unread.append(Unread(str(file), briefly(error)))
        if progress:
            progress(number + 1, len(files))
    if not found:
        raise FormatError(f"none of the {len(files)} files holds a session; the first of them: {unread[0].why}")
    kept = {id(session) for session in without_sub_agents([it.session for it in found])}
    chosen = [it for it in found if id(it.session) in kept]
    if sidechains:
        chosen = [each for it in chosen for each in (it, *_sidechains(it))]
    idle = tuple(it for it in chosen if not it.session.calls)
    active = [it for it in chosen if it.session.calls]
    if joined and active:
        name = f"{len(active)} sessions joined"
        active = [Found(join([it.session for it in active], name), "")]
    return Gathered(tuple(active), idle, tuple(unread))


def study(
    found: Sequence[Found],
    pricing: Pricing,
    counter: Counter = chars,
    annotate: AnnotateChoice = "auto",
    summary_tokens: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    *,
    own_prices: bool = False,
) -> list[Studied]:
    """Prepare sessions for replays: count their tokens, and index the needs of their calls.

    Args:
        found: the sessions.
        pricing: prices and cache rules.
        counter: estimates the tokens of a text.
        annotate: who marks episodes.
        summary_tokens: length of a summary; None as in `Subject.of`.
        progress: called with the number of sessions done, and the number of all sessions.
        own_prices: whether a session is priced by the model that it recorded, if that has known prices.
    """
    done = []
    for number, it in enumerate(found):
        subject = Subject.of(count(it.session, counter), summary_tokens)
        own = Pricing.recorded(it.session, hour=pricing.hour) if own_prices else None
        marks = annotator_of(it.session) if annotate == "auto" else annotate
        done.append(Studied(it, subject, marks, own or pricing, own is not None))
        if progress:
            progress(number + 1, len(found))
    return done


def annotator_of(session: RecordedSession) -> Annotate:
    """Return who marks a session's episodes: its agent if it marked any."""
    return "model" if is_annotated(session.parts) else "infer"


def _files(paths: Iterable[str | Path]) -> tuple[list[Path], set[Path]]:
    """Return all files once, in order, and those of them that were given by name."""
    files: dict[Path, Path] = {}
    named: set[Path] = set()
    for path in paths:
        means = find_files(path)
        if len(means) == 1 and means[0] == Path(path):
            named.add(files.setdefault(means[0].resolve(), means[0]))
            continue
        for file in means:
            files.setdefault(file.resolve(), file)
    if not files:
        raise SessionNotFoundError("no session was given; give a file, a folder, a pattern, or - for standard input")
    return list(files.values()), named


def _sidechains(found: Found) -> list[Found]:
    """Return the sessions of its sub-agents, and of theirs."""
    own = [replace(found, session=side, parent=found.session.name) for side in found.session.sidechains]
    return [each for it in own for each in (it, *_sidechains(it))]
