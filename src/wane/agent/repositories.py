"""Tells what Git would do in a directory that somebody else may have made: which repository it opens, what it starts.

The configuration of a repository can name programs that `git status` starts. It is no part of what is cloned, but of
what is unpacked or shared; and any directory with the files of a bare repository is one to Git. So Git counts as
reading only in the repository in which the session is, and only if its configuration has nothing but settings that are
known to start no program. What is not known counts as one that does.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from wane.agent.search_path import find_project, is_of_project, remove_project

_TIMEOUT: Final = 3.0  # seconds

_VARIABLES: Final = ("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY")
"""Variables with which Git opens another repository than the one that it stands in."""

_HARMLESS: Final = re.compile(
    r"""
    core\.(repositoryformatversion | filemode | bare | logallrefupdates | ignorecase | precomposeunicode | symlinks
      | autocrlf | eol | safecrlf | quotepath | abbrev | untrackedcache | preloadindex | compression | longpaths
      | sharedrepository | commentchar | multipackindex | commitgraph | trustctime | checkstat | whitespace
      | protectntfs | protecthfs | splitindex | sparsecheckout | sparsecheckoutcone | bigfilethreshold)
    | remote\.(.+\.)?(url | pushurl | fetch | push | tagopt | prune | prunetags | mirror | gh-resolved | pushdefault)
    | branch\.(?!.*\.mergeoptions$).+ | submodule\..+\.(url | active | branch | ignore) | submodule\.active
    | (user | author | committer)\.(name | email | signingkey)
    | (pull | push | fetch | rebase | rerere | color | column | advice | pack | index | feature | status
      | i18n | maintenance | gui | checkout | worktree | transfer | receive)\..+
    | gc\.(?!recentobjectshook$).+ | gitflow\.(?!path\.hooks$).+ | init\.defaultbranch
    | lfs\.(repositoryformatversion | (.+\.)?(access | locksverify))
    | blame\.(blankboundary | coloring | date | showemail | showroot | markunblamablelines | markignoredlines)
    | merge\.[a-z]+ | tag\.(gpgsign | sort) | commit\.(gpgsign | verbose | cleanup)
    | log\.(date | decorate | abbrevcommit | follow | graphcolors | mailmap | initialdecorationset)
    | diff\.(algorithm | colormoved | colormovedws | context | interhunkcontext | renames | renamelimit | mnemonicprefix
      | noprefix | relative | statgraphwidth | wserrorhighlight | indentheuristic | suppressblankempty | dirstat)
    | extensions\.(objectformat | refstorage | worktreeconfig | relativeworktrees | noop | preciousobjects)
    """,
    re.VERBOSE | re.DOTALL,
)
"""Settings that name no program to start, also when Git writes, and lead to no file outside when it reads."""

_DESTINATION: Final = re.compile(r"remote\.(.+\.)?(url|pushurl|pushdefault)|branch\..+\.(remote|pushremote)", re.DOTALL)
_ADDRESS: Final = re.compile(r"(?!file:)([\w+.-]+://|[^/:]+:).*", re.DOTALL)
"""What leads to another machine, and is no path."""

_PATHS: Final = re.compile(r"[^\s=;&|()'\"]+")
"""What may be a path in a word of a command line: `--git-dir=x`, `cd x && y`."""
_MOST_PLACES: Final = 64
_MOST_NAMES: Final = 20_000

_MOST_TEXT: Final = 1024**2  # bytes
_SHOWN: Final = 5  # settings in a question
_WORKTREE: Final = re.compile(r'^\s*worktree\s*=\s*"?([^"\n]+?)"?\s*$', re.MULTILINE)

_INERT: Final = {"core.fsmonitor": "false", "core.hooksPath": os.devnull, "safe.bareRepository": "explicit"}
"""Settings without which a repository that one did not make could start programs: monitors of files, hooks, and
repositories that are files of another."""

GIT: Final = (
    *("git", "--no-optional-locks", "-c", "core.quotePath=false", "-c", "color.ui=false"),
    *(word for name, value in _INERT.items() for word in ("-c", f"{name}={value}")),
)
"""Git as Wane itself starts it: inert, and without locks, so that it does not disturb the user's own commands."""


def quiet_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which Git writes nothing when it is asked to read.

    Without optional locks `git status` leaves the index as it is; `git diff` does so only without `autoRefreshIndex`.
    Whoever writes the index runs the hook `post-index-change`.
    """
    return {**_with_settings(environ, {"diff.autoRefreshIndex": "false"}), "GIT_OPTIONAL_LOCKS": "0"}


def inert_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which Git starts no monitor and no hook, and finds no repository among files."""
    return _with_settings(environ, _INERT)


def _with_settings(environ: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    count = environ.get("GIT_CONFIG_COUNT", "0")
    number = int(count) if count.isascii() and count.isdigit() else 0
    changed = dict(environ)
    for position, (name, value) in enumerate(settings.items(), start=number):
        changed |= {f"GIT_CONFIG_KEY_{position}": name, f"GIT_CONFIG_VALUE_{position}": value}
    return {**changed, "GIT_CONFIG_COUNT": str(number + len(settings))}


@dataclass(frozen=True, slots=True)
class GitRepository:
    """A repository as Git would find it.

    Attributes:
        top: the directory that has it.
        directory: its own directory, `.git` in most.
        embedded: whether it is a bare repository, which Git takes without `.git`, may be none, or leads elsewhere.
    """

    top: Path
    directory: Path
    embedded: bool = False

    @property
    def common(self) -> Path:
        """The directory that its worktrees share."""
        try:
            name = _text_of(self.directory / "commondir").strip()
        except (OSError, ValueError):
            return self.directory
        return Path(os.path.realpath(self.directory / name))

    @property
    def is_within(self) -> bool:
        """Whether its own directory is below the one that has it, and shares nothing with another."""
        return self.directory.is_relative_to(self.top) and not os.path.lexists(self.directory / "commondir")

    @property
    def is_mutual(self) -> bool:
        """Whether its own directory names it, too: any file could be a `.git` that names a directory elsewhere."""
        try:
            # A submodule's directory names the module by a setting, a worktree's by a file.
            if ".git" in self.directory.parts and "modules" in self.directory.parts:
                name = _WORKTREE.search(_text_of(self.directory / "config"))
                is_own = name is not None and os.path.realpath(self.directory / name[1]) == str(self.top)
                return is_own and self.common == self.directory
            name_of_link = _text_of(self.directory / "gitdir").strip()
        except (OSError, ValueError):
            return False
        is_link = os.path.realpath(self.directory / name_of_link) == os.path.realpath(self.top / ".git")
        return is_link and self.directory.parent == self.common / "worktrees"


def _leads_elsewhere(directory: Path) -> bool:
    """Whether a link of a repository's own directory leads to objects or references that may be somebody else's."""
    for folder in (directory, directory / "objects", directory / "refs"):
        try:
            links = [entry.name for entry in os.scandir(folder) if entry.is_symlink()]
        except OSError:
            continue
        if any(folder != directory or name != "hooks" for name in links):
            return True
    return False


_CREDENTIAL: Final = re.compile(
    r"""
    https?://[^/@\s":]{16,}:?@ | ://[^/@\s:"]*:[^/@\s"]+@
    | [?&]\w*token= | ^\s*[\w-]*(extraheader|pass|password|passwd|token|secret)\s*=
    """,
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)
"""A password in a URL, a user there whose name is long enough for a token, or a setting that is one."""
CREDENTIAL_FILES: Final = frozenset({"credentials", ".git-credentials", ".netrc"})
"""Names of files with passwords in a repository's own directory."""


def holds_credential(settings: Path) -> bool:
    """Return whether a file with settings of Git holds a password or a token, or cannot be read to tell."""
    try:
        return _CREDENTIAL.search(_text_of(settings)) is not None
    except (OSError, ValueError):
        return settings.is_file()


def find_credentials(repository: GitRepository) -> Iterator[str]:
    """Yield files of a repository's own directory that hold passwords or tokens: settings and stored credentials."""
    modules: list[Path] = []
    for folder, folders, names in os.walk(repository.common / "modules"):
        if "HEAD" in names:
            modules.append(Path(folder))
            folders[:] = {"modules"}.intersection(folders)
    for own in dict.fromkeys((repository.common, repository.directory, *modules)):
        try:
            names = os.listdir(own)
        except OSError:
            continue
        for name in names:
            path = own / name
            is_settings = name in ("config", "config.worktree")
            if name in CREDENTIAL_FILES or (is_settings and holds_credential(path)):
                yield str(path)


def find_repository(start: Path) -> GitRepository | None:
    """Return the repository that Git opens if it is started in a directory; None if there is none."""
    real = Path(os.path.realpath(start))
    for folder in (real, *real.parents):
        entry = folder / ".git"
        if entry.is_file():
            try:
                name = _text_of(entry).partition("gitdir:")[2].strip()
            except (OSError, ValueError):
                name = ""
            own = GitRepository(folder, Path(os.path.realpath(folder / name)))
            return replace(own, embedded=not (own.is_mutual or own.is_within) or _leads_elsewhere(own.common))
        if os.path.lexists(entry):
            # Git goes on above a directory that is no repository, so where it ends is not known.
            # Nor is it this one's if its files, or what they name, are elsewhere.
            elsewhere = entry.is_symlink() or os.path.lexists(entry / "commondir") or _leads_elsewhere(entry)
            doubtful = elsewhere or not os.path.lexists(entry / "HEAD")
            return GitRepository(folder, Path(os.path.realpath(entry)), embedded=doubtful)
        if all(os.path.lexists(folder / name) for name in ("HEAD", "objects", "refs")):
            return GitRepository(folder, folder, embedded=True)
    return None


def find_hooks(repository: GitRepository) -> tuple[tuple[str, str], ...]:
    """Return the programs of a repository that Git starts when it writes, each with a digest of its content."""
    hooks: list[tuple[str, str]] = []
    try:
        entries = sorted(os.scandir(repository.common / "hooks"), key=lambda entry: entry.name)
    except OSError:
        return ()
    for entry in entries:
        if entry.is_file() and not entry.name.endswith(".sample") and os.access(entry.path, os.X_OK):
            try:
                content = Path(entry.path).read_bytes()
            except OSError:
                content = b""
            hooks.append((f"hooks/{entry.name}", hashlib.sha256(content).hexdigest()))
    return tuple(hooks)


def find_nested(directory: Path) -> Iterator[str]:
    """Yield directories below one that are repositories of their own, among the first 20,000 names."""
    names = 0
    for folder, folders, files in os.walk(directory):
        names += len(folders) + len(files)
        if folder != str(directory) and ".git" in (*folders, *files):
            yield folder
        if ".git" in folders:
            folders.remove(".git")
        if names > _MOST_NAMES:
            return


def is_harmless(setting: str) -> bool:
    """Return whether a setting of Git, by its name, starts no program and leads to no file outside."""
    return _HARMLESS.fullmatch(setting.lower()) is not None


@dataclass(slots=True)
class RepositoryGuard:
    """Says where Git may be used unasked, for the session in one directory.

    Attributes:
        directory: where the session works.
        environ: the environment of its commands.
        trusted: the digest of the settings that the user trusts though they may start programs; empty for none.
        ask: starts Git with some arguments, and returns what it says, or None if it fails; without it Git is started
            directly.
    """

    directory: Path
    environ: Mapping[str, str]
    trusted: str = ""
    ask: Callable[[Sequence[str]], str | None] | None = None
    _settings: dict[tuple[object, ...], tuple[tuple[str, str], ...] | None] = field(default_factory=dict, init=False)
    _links: dict[tuple[object, ...], bool] = field(default_factory=dict, init=False)

    def opens(self, start: Path, enters_submodules: bool = True) -> bool:
        """Return whether Git, started there, opens the session's repository and starts no program of its settings."""
        own = find_repository(self.directory)
        if own is None or own.embedded or find_repository(start) != own:
            return False
        if any(name in self.environ for name in _VARIABLES):
            return False
        settings = self.unknown_settings(own)
        if settings is None or (settings and self.digest != self.trusted):
            return False
        return not enters_submodules or not self._has_submodules(own)

    def reads(self, start: Path, enters_submodules: bool = True) -> bool:
        """Return whether Git, started there, does no more than read the session's repository, and shows no password."""
        own = find_repository(self.directory)
        return self.opens(start, enters_submodules) and own is not None and not any(find_credentials(own))

    def explain(self, words: Iterable[str] = ()) -> str:
        """Return in a sentence why all commands of Git ask here, given a line's words; empty if not all do."""
        own = find_repository(self.directory)
        if own is not None and (files := sorted(find_credentials(own))):
            name = os.path.relpath(files[0], self.directory)
            return f"Commands of Git ask here, because {name} holds a password or a token, which they may show."
        if self.doubts(words):
            return (
                "Commands of Git ask here, because of a repository that has submodules, is not certain to be the"
                " session's, or has settings or hooks that may start programs and that you have not trusted."
            )
        return ""

    @property
    def is_inert(self) -> bool:
        """Whether Git must not be started in the session's repository, since its settings may start programs."""
        own = find_repository(self.directory)
        if own is None or own.embedded:
            return False
        settings = self.unknown_settings(own)
        return settings is None or bool(settings and self.digest != self.trusted)

    def doubts(self, words: Iterable[str] = ()) -> bool:
        """Return whether Git might start a program that nobody has allowed, in the session's directory or elsewhere.

        That may be a setting or a hook that the user does not trust, of the repository or a submodule, or a repository
        that is not certain to be the session's. The words are those of a command line. The directories to which one
        leads after the other count, too, as in `git -C x`, `cd x && git` or `git push ./x`, and where files are added,
        repositories among them.
        """
        own = find_repository(self.directory)
        if own is not None and (not self.opens(self.directory) or (find_hooks(own) and self.digest != self.trusted)):
            return True
        places = {str(self.directory): None}
        adds = False
        for word in words:
            adds = adds or word in ("add", "stage")
            for name in _PATHS.findall(word):
                if name.startswith("file:"):
                    return True  # it may have a host and encoded letters
                for place in tuple(places):
                    path = os.path.realpath(os.path.join(place, os.path.expanduser(name)))
                    # Git tries the name with a suffix, too.
                    places |= dict.fromkeys(filter(os.path.isdir, (path, f"{path}.git")))
                    if len(places) > _MOST_PLACES:
                        return True
        if adds:
            places |= dict.fromkeys(find_nested(self.directory))
        for directory in map(Path, places):
            other = find_repository(directory)
            if other is not None and other != own and replace(self, directory=directory).doubts():
                return True
        return False

    @property
    def question(self) -> str:
        """What the user is asked about the repository's settings and hooks, by line; empty if there is nothing."""
        own = find_repository(self.directory)
        settings = self.unknown_settings(own) if own is not None and not own.embedded else None
        if own is None or settings is None:
            return ""
        hooks = find_hooks(own)
        if not (settings or hooks) or self.digest == self.trusted:
            return ""
        lines = [f"{name} = {value}" if value else name for name, value in settings] + [name for name, _ in hooks]
        return "\n".join([*lines[:_SHOWN], *([f"and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else [])])

    @property
    def digest(self) -> str:
        """The digest of the settings and hooks that `question` is about."""
        own = find_repository(self.directory)
        if own is None:
            return ""
        settings = (*(self.unknown_settings(own) or ()), *find_hooks(own))
        return hashlib.sha256(repr(settings).encode()).hexdigest()

    def unknown_settings(self, repository: GitRepository) -> tuple[tuple[str, str], ...] | None:
        """Return the settings of a repository that may start a program; None if they cannot be read."""
        common = repository.common
        files = [common / "config", repository.directory / "config.worktree"]
        alternates = common / "objects" / "info" / "alternates"
        key = tuple(_state(path) for path in (*files, alternates))
        if key not in self._settings:
            self._settings[key] = self._read(files, alternates, repository.top)
        return self._settings[key]

    def _read(self, files: list[Path], alternates: Path, top: Path) -> tuple[tuple[str, str], ...] | None:
        unknown: list[tuple[str, str]] = []
        if os.path.lexists(alternates):
            unknown.append(("objects/info/alternates", ""))
        for file in files:
            if not os.path.lexists(file):
                continue
            # Git reads this one file, without those that it includes, so nothing of it takes effect.
            command = ("config", "--file", str(file), "--no-includes", "--null", "--list")
            output = None if file.is_symlink() else self._git(*command)
            if output is None:
                return None
            entries = [entry.partition("\n")[::2] for entry in filter(None, output.split("\0"))]
            names = {name for name, _ in entries}
            for name, value in entries:
                # Whoever pushes into a repository among the project's files runs its hooks.
                is_path = (
                    value not in ("", ".") and not _ADDRESS.fullmatch(value) and f"remote.{value}.url" not in names
                )
                is_push = is_path and _DESTINATION.fullmatch(name) is not None
                path = str(top / value.removeprefix("file://"))
                if not is_harmless(name) or (is_push and is_of_project(path, find_project(top))):
                    unknown.append((name, value))
        return tuple(sorted(unknown))

    def _has_submodules(self, repository: GitRepository) -> bool:
        """Whether the index has commits of other repositories, which `git status` and `git diff` open."""
        key = (repository.directory, _state(repository.directory / "index"))
        if key not in self._links:
            listed = self._git("-C", str(repository.top), "-c", "core.fsmonitor=false", "ls-files", "--stage", "-z")
            self._links[key] = listed is None or any(line.startswith("160000 ") for line in listed.split("\0"))
        return self._links[key]

    def _git(self, *arguments: str) -> str | None:
        if self.ask is not None:
            return self.ask(arguments)
        try:
            done = subprocess.run(  # noqa: S603 - no shell, and arguments of our own
                ("git", *arguments),  # noqa: S607 - the Git that the agent's commands start
                cwd=os.sep,
                env={
                    **self.environ,
                    "PATH": remove_project(self.environ.get("PATH", os.defpath), self.directory),
                    "GIT_OPTIONAL_LOCKS": "0",
                },
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_TIMEOUT,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


def _text_of(path: Path) -> str:
    """Return a small text that Git keeps in a file.

    Raises:
        OSError: if it cannot be read, or is no file: a pipe would keep the reader waiting.
        ValueError: if it is no text.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not a file")
    with path.open("rb") as file:
        return file.read(_MOST_TEXT).decode("utf-8")


def _state(path: Path) -> tuple[object, ...]:
    """What changes when a file does."""
    try:
        status = path.lstat()
    except OSError:
        return (path,)
    return (path, status.st_mtime_ns, status.st_size, status.st_ino, stat.S_IFMT(status.st_mode))
