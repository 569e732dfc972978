"""The recordings of the benchmark: their sources, their licences, and their state in a folder."""

from __future__ import annotations

import hashlib
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import quote

from wane.core.errors import ConfigError, WaneError

State = Literal["present", "missing", "different"]

_URL: Final = "https://raw.githubusercontent.com/{repository}/{commit}/{path}"


class RecordingError(WaneError):
    """Recordings of the benchmark that are missing in a folder, or differ."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One recording."""

    name: str  # its path in the user's folder, with slashes
    path: str  # its file in the repository
    size: int  # its bytes
    sha256: str  # digest of its bytes

    def state(self, folder: Path) -> State:
        path = folder / self.name
        try:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
        except FileNotFoundError:
            return "missing"
        except OSError as error:
            raise RecordingError(f"cannot read {path}: {error.strerror}") from error
        return "present" if digest == self.sha256 else "different"


@dataclass(frozen=True, slots=True)
class Source:
    """A public repository with recordings."""

    name: str  # its name here
    repository: str  # `owner/name` on GitHub
    licence: str
    commit: str  # the commit that holds the files
    about: str  # a description of the recordings
    recordings: tuple[SourceFile, ...]

    def url(self, recording: SourceFile) -> str:
        """Return the URL of one of its files, at its commit."""
        return _URL.format(repository=self.repository, commit=self.commit, path=quote(recording.path))

    def to_dict(self, recording: SourceFile, state: State) -> dict[str, Any]:
        """Return one of its recordings as JSON data."""
        return {
            "name": recording.name,
            "state": state,
            "repository": self.repository,
            "commit": self.commit,
            "path": recording.path,
            "licence": self.licence,
            "url": self.url(recording),
            "bytes": recording.size,
            "sha256": recording.sha256,
        }


def load_sources() -> tuple[Source, ...]:
    text = files(__package__).joinpath("sources.toml").read_text(encoding="utf-8")
    sources = []
    for entry in tomllib.loads(text)["source"]:
        recordings = tuple(SourceFile(**recording) for recording in entry.pop("file"))
        sources.append(Source(**entry, recordings=recordings))
    return tuple(sources)


def pick_sources(sources: Sequence[Source], text: str) -> tuple[Source, ...]:
    """Return the sources named in a text such as `pi,agentv`, in their own order; all of them for `all`."""
    names = {word.strip() for word in text.split(",") if word.strip()}
    known = [source.name for source in sources]
    for name in sorted(names - {"all", *known}):
        raise ConfigError(f"the source {name!r} is unknown; known: all, {', '.join(known)}")
    if not names:
        raise ConfigError(f"--source names nothing; write all, or some of {', '.join(known)}")
    return tuple(source for source in sources if "all" in names or source.name in names)


def states(sources: Iterable[Source], folder: Path) -> Iterator[tuple[Source, SourceFile, State]]:
    for source in sources:
        for recording in source.recordings:
            yield source, recording, recording.state(folder)


def check_recordings(sources: Iterable[Source], folder: Path) -> None:
    how = f"How to fetch them: wane lab bench {shlex.quote(str(folder))} --sources"
    if not folder.is_dir():
        raise RecordingError(f"there is no folder {folder} with the recordings. {how}")
    by_state: dict[State, list[str]] = {"missing": [], "different": []}
    for _, recording, state in states(sources, folder):
        if state != "present":
            by_state[state].append(recording.name)
    problems = []
    if by_state["different"]:
        problems.append(f"different from the benchmark's own file: {', '.join(by_state['different'])}")
    if by_state["missing"]:
        problems.append(f"missing in {folder}: {', '.join(by_state['missing'])}")
    if problems:
        raise RecordingError(f"{'; '.join(problems)}. {how}")


def script(sources: Sequence[Source], folder: Path) -> Iterator[str]:
    """Yield the lines of a shell script that fetches the files missing in a folder; comments give each file's state."""
    every = [recording for source in sources for recording in source.recordings]
    size = sum(recording.size for recording in every) / 1e6
    yield f"# {len(every)} recordings, {size:.0f} MB, of {len(sources)} public repositories. A shell can run these"
    yield "# lines; wane itself fetches nothing. Run the command again to check the digests."
    for source in sources:
        yield f"#\n# {source.name}: github.com/{source.repository} at {source.commit}, {source.licence}"
        yield f"# {source.about}"
        for recording in source.recordings:
            state = recording.state(folder)
            yield f"#   {state}: {recording.name}"
            if state != "present":
                target = shlex.quote(str(folder / recording.name))
                yield f"curl -fsSL --create-dirs -o {target} {shlex.quote(source.url(recording))}"
