"""Help at the prompt: keys, completion, marks for long pasted texts, and a history of what was typed."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from prompt_toolkit.application import get_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.keys import Keys
from typing_extensions import override

from wane.agent.repositories import RepositoryGuard
from wane.agent.sandbox.own_git import OwnGit
from wane.agent.sandbox.wall import find_sandbox
from wane.cli.terminal.text import count_noun

if TYPE_CHECKING:
    from prompt_toolkit.buffer import Buffer
    from prompt_toolkit.input import Input
    from prompt_toolkit.key_binding import KeyPressEvent

MAX_PATHS: Final = 20_000
"""Paths of a project that are offered."""

MAX_SHOWN: Final = 40
"""Completions that are offered at a time."""

HISTORY_FILE: Final = "prompts"
"""Name of the file with what was typed, in the directory of the sessions."""

MAX_PASTED_LINES: Final = 8
"""Lines of a pasted text that stay in the line as they are."""

MAX_PASTED_CHARS: Final = 1_000
"""Characters of it."""

_PASTE_MARK: Final = re.compile(r"\[Pasted #(\d+): [\d,]+ (?:lines?|characters)\]")

_SKIPPED: Final = frozenset({".git", "node_modules", "__pycache__", ".venv"})


class ChatCompleter(Completer):
    """Completes `/command` at the beginning of a line, and `@path` anywhere."""

    def __init__(
        self,
        commands: Callable[[], Iterable[tuple[str, str]]],
        directory: Path,
        trusted: Callable[[], str] = str,
    ) -> None:
        self._commands = commands
        self._directory = directory
        self._trusted = trusted
        self._paths: list[str] = []

    @override
    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        before = document.text_before_cursor
        if before.startswith("/"):
            for name, help_text in self._commands():
                if name.startswith(before):
                    yield Completion(name, start_position=-len(before), display_meta=help_text)
            return
        word = before.replace("\n", " ").rpartition(" ")[2]
        if not word.startswith("@"):
            return
        if word == "@" or not self._paths:
            self._paths = project_paths(self._directory, self._trusted())
        for path in matching(self._paths, word[1:]):
            yield Completion(f"@{path}", start_position=-len(word))


def matching(paths: Iterable[str], typed: str) -> list[str]:
    """Return the paths that contain the typed characters, the likeliest first: by name, by beginning, by length."""
    pattern = typed.lower()

    def rank(path: str) -> tuple[bool, bool, int, str]:
        lower = path.lower()
        name = lower.rstrip("/").rpartition("/")[2]
        return not name.startswith(pattern), not lower.startswith(pattern), len(path), lower

    return sorted((path for path in paths if pattern in path.lower()), key=rank)[:MAX_SHOWN]


def project_paths(directory: Path, trusted: str = "") -> list[str]:
    """Return the files and directories of a project, below `directory`: what git does not ignore, if there is git.

    Git is not started if the repository's settings may start a program, unless `trusted` is their digest.
    """
    git = OwnGit(find_sandbox(directory, os.environ), os.environ)
    listed = None
    if RepositoryGuard(directory, os.environ, trusted, git.ask).opens(directory, False):
        with suppress(TimeoutError):
            (listed,) = git.ask_all(("ls-files", "-z", "--cached", "--others", "--exclude-standard"))
    files: Iterable[str] = _walk_files(directory) if listed is None else filter(None, listed.split("\0"))
    paths: dict[str, None] = {}
    for file in files:
        parts = file.split("/")
        for depth in range(1, len(parts)):
            paths[f"{'/'.join(parts[:depth])}/"] = None
        paths[file] = None
        if len(paths) >= MAX_PATHS:
            break
    return list(paths)


class Pastes:
    """The long texts that were pasted in a chat. Until the line is sent, a short mark stands for each in it."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def fold_paste(self, text: str) -> str:
        """Return what the line shows of a pasted text: the text, or the mark of a long one."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.rstrip("\n").count("\n") + 1
        if lines <= MAX_PASTED_LINES and len(text) <= MAX_PASTED_CHARS:
            return text
        self._texts.append(text)
        size = count_noun(lines, "line") if lines > 1 else f"{len(text):,} characters"
        return f"[Pasted #{len(self._texts)}: {size}]"

    def full(self, line: str) -> str:
        """Return a line with the texts in place of their marks."""
        return _PASTE_MARK.sub(self._text_of, line)

    def mark_at_end(self, line: str) -> int:
        """Return the length of the mark at the end of a line; 0 if there is none."""
        for mark in _PASTE_MARK.finditer(line):
            if mark.end() == len(line) and self._text_of(mark) != mark[0]:
                return len(mark[0])
        return 0

    def _text_of(self, mark: re.Match[str]) -> str:
        number = int(mark[1])
        return self._texts[number - 1] if 0 < number <= len(self._texts) else mark[0]


def history_at(root: Path | None, keeps: Callable[[str], bool], pastes: Pastes) -> History:
    """Return the history of what was typed, in a file that only its user can read.

    Args:
        root: directory of the file; None keeps nothing beyond this chat.
        keeps: whether a line belongs to the history; answers to questions do not.
        pastes: the texts for the marks in a line.
    """
    path = Path(os.devnull)  # without a file, the lines are still in the history of this chat
    if root is not None:
        with suppress(OSError):
            root.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(root / HISTORY_FILE, os.O_WRONLY | os.O_CREAT, 0o600))
            path = root / HISTORY_FILE
    return _History(path, keeps, pastes)


class _History(FileHistory):
    def __init__(self, path: Path, keeps: Callable[[str], bool], pastes: Pastes) -> None:
        self._keeps = keeps
        self._pastes = pastes
        super().__init__(path)

    @override
    def append_string(self, string: str) -> None:
        if self._keeps(string):
            super().append_string(self._pastes.full(string))


class KeyHost(Protocol):
    """The chat, as the keys use it."""

    pastes: Pastes

    @property
    def working(self) -> bool:
        """Whether a turn is running."""

    @property
    def asking(self) -> bool:
        """Whether a question waits for its answer."""

    def interrupt(self, buffer: Buffer) -> None:
        """Handle Ctrl-C, and Esc during a turn."""

    def press(self, buffer: Buffer, digit: str) -> None:
        """Take a digit as the answer to the open question, or as a part of one in words."""

    def escape(self) -> None:
        """Handle Esc at an idle, empty prompt."""

    def take_back(self, buffer: Buffer) -> bool:
        """Take the last queued line back into an empty prompt; False if there is none."""

    def unfold(self) -> None:
        """Write the whole of what was last shown in part."""


def keyboard() -> Input | None:
    """Return where keys are read from; None for prompt_toolkit's default.

    The terminal stays raw while lines are written above the prompt. In cooked mode, an Enter typed at that moment
    arrives as Ctrl-J, and Ctrl-D and Ctrl-C do not arrive at all.
    """
    if sys.platform == "win32":
        return None
    from prompt_toolkit.input.vt100 import Vt100Input

    class Keyboard(Vt100Input):
        @override
        def cooked_mode(self) -> AbstractContextManager[None]:
            return nullcontext()

    return Keyboard(sys.stdin)


def chat_keys(chat: KeyHost) -> KeyBindings:
    keys = KeyBindings()

    @keys.add("c-c")
    def _(event: KeyPressEvent) -> None:
        chat.interrupt(event.current_buffer)

    # Not eager: Alt-Enter and the like begin with the same character, and come in one piece.
    @keys.add("escape", filter=Condition(lambda: chat.working))
    def _(event: KeyPressEvent) -> None:
        if event.current_buffer.complete_state is not None:
            event.current_buffer.cancel_completion()
        else:
            chat.interrupt(event.current_buffer)

    for number in range(1, 10):

        @keys.add(str(number), filter=Condition(lambda: chat.asking))
        def _(event: KeyPressEvent) -> None:
            chat.press(event.current_buffer, event.data)

    @keys.add("escape", filter=Condition(lambda: not chat.working and not get_app().current_buffer.text))
    def _(event: KeyPressEvent) -> None:
        chat.escape()
        event.app.invalidate()

    # Ctrl-J is a separate key in every terminal; few distinguish Shift-Enter from Enter.
    @keys.add("escape", "enter")
    @keys.add("c-j")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("enter", filter=Condition(lambda: get_app().current_buffer.document.text_before_cursor.endswith("\\")))
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.delete_before_cursor()
        event.current_buffer.insert_text("\n")

    @keys.add(Keys.BracketedPaste)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text(chat.pastes.fold_paste(event.data))

    @keys.add("backspace")
    def _(event: KeyPressEvent) -> None:
        before = event.current_buffer.document.text_before_cursor
        event.current_buffer.delete_before_cursor(max(event.arg, chat.pastes.mark_at_end(before)))

    @keys.add("c-o")
    def _(_event: KeyPressEvent) -> None:
        chat.unfold()

    @keys.add("up")
    def _(event: KeyPressEvent) -> None:
        if not chat.take_back(event.current_buffer):
            event.current_buffer.auto_up(count=event.arg)

    return keys


def _walk_files(directory: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(directory):
        folders[:] = [name for name in folders if name not in _SKIPPED]
        for name in files:
            yield Path(folder, name).relative_to(directory).as_posix()
