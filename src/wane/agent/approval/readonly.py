"""Judges which parts of a command line only read, and only below the directory, as the file tools do unasked.

The line is followed as the shell would run it: `cd` in order, patterns expanded, the values of a `for` one by one; and
each command that results is judged as if it had been typed, by the table of usages. What is not in the table asks.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Final

from wane.agent.approval.grammar import (
    CommandLine,
    Compound,
    CompoundForm,
    Piece,
    PieceKind,
    Redirection,
    Script,
    SimpleCommand,
    Word,
    is_assignment,
    simple_commands,
)
from wane.agent.approval.scripts import prints_only
from wane.agent.approval.splitting import CHANGES_SHELL, ShellPart, part_of
from wane.agent.repositories import find_repository
from wane.agent.search_path import find_project, is_of_project
from wane.agent.secrets import holds_secret
from wane.tools.programs import word_set
from wane.tools.usages import BUILTINS, IDLE_USAGES, PLAIN_USAGES, PROGRAMS, USAGES, ReadingUse


class Reading(IntEnum):
    """How sure it is that a part only reads."""

    ASKS = 0
    """It may do more, or it cannot be told."""
    SANDBOXED = 1
    """It only reads, as far as the line can be followed: enough where the kernel keeps it from doing more."""
    PLAIN = 2
    """Likewise, by a short table, and the shell leaves all of its words as they are: enough where nothing else keeps
    it."""
    IDLE = 3
    """It reads no file and shows no variable either: enough beside a command that the user allows."""


_MAX_COMMANDS: Final = 2_000
"""Commands that are judged for one line, with each value of its loops; a line with more of them asks."""
_MAX_NAMES: Final = 10_000
"""Names that a pattern may match, and files below a directory that is compared."""
_MAX_STARTS: Final = 16

_HARMLESS_VARIABLES: Final = word_set("HOME USER LOGNAME SHELL PATH LANG TERM PWD OLDPWD VIRTUAL_ENV")
"""Variables that `echo` may show: they hold no secret."""
_LOOP_VARIABLE: Final = re.compile(r"[a-z][a-z0-9]*")
_PLAIN_VALUE: Final = re.compile(r"[\w./,:=@%+^-]+", re.ASCII)
_SIGNATURE: Final = re.compile(r"%[-+ ]*G|signature", re.IGNORECASE)
_SETS_VARIABLE: Final = re.compile(r"%[^%A-Za-z]*[hlLqjzt]*n")
"""What makes bash's `printf` set a variable."""
_ARCHIVE: Final = re.compile(r"[^*?\[\]\\]+\.(zip|jar|war|whl|epub|docx|xlsx|pptx|odt|apk)", re.IGNORECASE)
_CHANGES_SETTINGS: Final = word_set("edit set unset rename-section remove-section")
_RESPONDS: Final = word_set("strings")
"""Programs that take `@file` for a file with further arguments."""
_EXPRESSIONS: Final = {"*": ".*", "?": "."}
_KINDS: Final = word_set("""
    text echoed path tested tree mark pattern patterns pair format plus few amount name printed archive setting
    sed awk jq
""")
_NAMES_ONLY: Final = word_set("ls test [ stat find fd fdfind du df tree readlink realpath file git")
"""Programs that show no content of the files that they are given; Git shows what it tracks."""
_GIT_FLAGS: Final = frozenset({"--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs"})


class _AsksError(Exception):
    """A part may do more than read."""


@dataclass(slots=True)
class Surroundings:
    """What a command line meets.

    Attributes:
        directory: where it runs, and what it may read.
        environ: the environment of its programs.
        opens_repository: whether Git, started in a directory, opens the session's repository and starts no program
            of its configuration. The second argument says whether it looks into submodules too.
    """

    directory: Path
    environ: Mapping[str, str]
    opens_repository: Callable[[Path, bool], bool]


def readings(line: CommandLine, surroundings: Surroundings) -> dict[ShellPart, Reading]:
    """Return for each part of a line how sure it is that it only reads."""
    commands = [part_of(command) for command in simple_commands(line.script)]
    parts = [part for part in commands if part is not None]
    asking = dict.fromkeys(parts, Reading.ASKS)
    if line.raw or _changes_shell(line.script):
        return asking
    walk = _Walk(surroundings)
    try:
        walk.follow(line.script, _Here(frozenset({str(surroundings.directory)})))
    except (_AsksError, OSError, ValueError):
        return asking
    judged = {part: walk.readings.get(part, Reading.ASKS) for part in parts}
    # Beside a part that may change files, a name may lead elsewhere by the time when it is read: after `ln`, or `git
    # checkout`. The user who allowed that part has not seen the other one.
    is_changed = False
    for group in _groups(line.script):
        is_changed = is_changed or any(judged[part] < Reading.PLAIN for part in group)
        for part in group:
            if is_changed and part in walk.naming:
                judged[part] = min(judged[part], Reading.SANDBOXED)
    return judged


def _groups(script: Script) -> Iterator[list[ShellPart]]:
    """Yield the parts of a script in the order in which they run; those that may run at the same time are one group."""
    is_sequence = isinstance(script, Compound) and (
        script.form in (CompoundForm.LIST, CompoundForm.CHAIN)
        or (script.form is CompoundForm.APART and len(script.children) == 1)
    )
    if isinstance(script, Compound) and is_sequence and not script.redirections:
        for child in script.children:
            yield from _groups(child)
    else:
        parts = [part_of(command) for command in simple_commands(script)]
        yield [part for part in parts if part is not None]


def _changes_shell(script: Script) -> bool:
    """Whether a command of a script changes what later ones mean, or its name is not known."""
    match script:
        case Compound():
            if script.form is CompoundForm.FUNCTION or any(_changes_shell(child) for child in script.children):
                return True
            nested = [inner for value in script.values for inner in value.nested]
            return any(_changes_shell(inner) for inner in nested)
        case SimpleCommand():
            if any(_changes_shell(inner) for inner in script.nested):
                return True
            if not script.words:
                return False
            name = script.words[0].literal
            return is_assignment(script.words[0]) or name is None or name in CHANGES_SHELL


@dataclass(frozen=True, slots=True)
class _Here:
    """Where the shell may be while it runs a part, as it names the directory, and what holds there."""

    starts: frozenset[str]
    variables: tuple[tuple[str, str], ...] = ()
    enters: bool = True
    """Whether `cd` can be followed: not in loops."""
    plain: bool = True
    asks: bool = False


@dataclass(frozen=True, slots=True)
class _Argument:
    """A word as its program receives it; None for a text that only the shell knows, and whether that is digits."""

    text: str | None
    literal: bool = True
    digits: bool = False


@dataclass(slots=True)
class _Walk:
    surroundings: Surroundings
    readings: dict[ShellPart, Reading] = field(default_factory=dict)
    naming: set[ShellPart] = field(default_factory=set)
    names_file: bool = False
    shows_content: bool = True
    root: str = field(init=False)
    project: Path = field(init=False)
    commands: int = 0

    def __post_init__(self) -> None:
        self.root = os.path.realpath(self.surroundings.directory)
        self.project = find_project(self.surroundings.directory)

    def follow(self, script: Script, here: _Here) -> frozenset[str]:
        """Judge the parts of a script, and return where the shell may be behind it."""
        if isinstance(script, SimpleCommand):
            return self._simple(script, here)
        match script.form:
            case CompoundForm.LIST:
                inner = here
                for child in script.children:
                    inner = _move_on(inner, inner.starts | self.follow(child, inner))
                starts = inner.starts
            case CompoundForm.CHAIN:
                inner, starts = here, here.starts
                for child in script.children:
                    inner = _move_on(inner, self.follow(child, inner))
                    starts |= inner.starts
            case CompoundForm.APART:
                for child in script.children:
                    self.follow(child, here)
                starts = here.starts
            case CompoundForm.FOR:
                self._loop(script, here)
                starts = here.starts
            case _:
                asking = _Here(here.starts, here.variables, enters=False, plain=False, asks=True)
                for child in script.children:
                    self.follow(child, asking)
                starts = here.starts
        for redirection in script.redirections:
            self._redirection(redirection, here)
            for nested in redirection.target.nested:
                self.follow(nested, _apart(here))
        return starts

    def _loop(self, script: Compound, here: _Here) -> None:
        inside = _Here(here.starts, here.variables, enters=False, plain=False, asks=here.asks)
        for value in script.values:
            for nested in value.nested:
                self.follow(nested, inside)
        # Without values the body does not run, but its parts need a verdict.
        unknown = _Here(here.starts, here.variables, enters=False, plain=False, asks=True)
        name = script.variable
        if name in dict(here.variables):
            raise _AsksError  # the outer loop goes on with the value of the inner one
        if not _LOOP_VARIABLE.fullmatch(name) or name in self.surroundings.environ:
            values: list[str] = []
        else:
            try:
                arguments = [argument for value in script.values for argument in self._expand_word(value, here)]
                values = [argument.text for argument in arguments if argument.text is not None]
                values = values if len(values) == len(arguments) else []
            except _AsksError:
                values = []
        for value_text in dict.fromkeys(values):
            variables = (*here.variables, (name, value_text))
            for child in script.children:
                self.follow(child, _Here(here.starts, variables, enters=False, plain=False, asks=here.asks))
        if not values:
            for child in script.children:
                self.follow(child, unknown)

    def _simple(self, command: SimpleCommand, here: _Here) -> frozenset[str]:
        self.commands += 1
        if self.commands > _MAX_COMMANDS:
            raise _AsksError
        for nested in command.nested:
            self.follow(nested, _apart(here))
        for redirection in command.redirections:
            self._redirection(redirection, here)
        part = part_of(command)
        if part is None:
            return here.starts
        try:
            if here.asks:
                raise _AsksError
            self.names_file = bool(command.redirections)
            arguments = [argument for word in command.words for argument in self._expand_word(word, here)]
            plain = here.plain and all(argument.literal for argument in arguments)
            starts = here.starts
            if arguments[0].text == "cd":
                starts = self._enter_directory(arguments, here)
                found = Reading.PLAIN
                self.names_file = True
            else:
                found = self._judge(arguments, here.starts)
            if found is not Reading.IDLE or not here.plain or not all(map(_is_known, command.words)):
                found = min(found, Reading.PLAIN if plain else Reading.SANDBOXED)
            self._note(part, found)
            if self.names_file:
                self.naming.add(part)
            return starts
        except (_AsksError, OSError, ValueError):
            self._note(part, Reading.ASKS)
            # Where `cd` leads is not known, so nothing behind it is.
            if part.words[0] == "cd":
                raise _AsksError from None
            return here.starts

    def _note(self, part: ShellPart, reading: Reading) -> None:
        self.readings[part] = min(reading, self.readings.get(part, reading))

    def _redirection(self, redirection: Redirection, here: _Here) -> None:
        part = part_of(redirection)
        if part is None:
            return
        reading = Reading.ASKS
        if redirection.operator == "<" and not here.asks:
            try:
                (argument,) = self._expand_word(redirection.target, here)
                self.shows_content = True
                text = argument.text
                if text is not None and self._is_below(text, here.starts) and not self._shows_secret(text, here.starts):
                    reading = Reading.PLAIN if argument.literal and here.plain else Reading.SANDBOXED
            except (_AsksError, OSError, ValueError):
                pass
        self.naming.add(part)
        self._note(part, reading)

    def _enter_directory(self, arguments: Sequence[_Argument], here: _Here) -> frozenset[str]:
        """Return where the shell is behind a `cd`, by the path as it names it and over links."""
        words = [argument.text for argument in arguments]
        if len(words) != 2 or not here.enters or not words[1] or "CDPATH" in self.surroundings.environ:
            raise _AsksError
        target = words[1]
        if target.startswith("-"):
            raise _AsksError
        starts = {os.path.normpath(os.path.join(start, target)) for start in here.starts}
        starts |= {os.path.realpath(os.path.join(start, target)) for start in here.starts}
        if len(starts) > _MAX_STARTS or not all(self._is_inside(os.path.realpath(start)) for start in starts):
            raise _AsksError
        return frozenset(starts)

    # Words

    def _expand_word(self, word: Word, here: _Here) -> list[_Argument]:
        """Return what the shell makes of a word.

        Raises:
            _AsksError: if that cannot be told.
        """
        variables = dict(here.variables)
        pieces: list[Piece] = []
        literal, opaque = True, False
        for piece in word.pieces:
            text = piece.text
            match piece.kind:
                case PieceKind.TEXT | PieceKind.PATTERN:
                    pieces.append(piece)
                case PieceKind.DIGITS:
                    opaque = True
                case PieceKind.OUTPUT if piece.quoted:
                    opaque = True
                case PieceKind.VARIABLE if text in variables:
                    if not piece.quoted and not _PLAIN_VALUE.fullmatch(variables[text]):
                        raise _AsksError
                    pieces.append(Piece(PieceKind.TEXT, variables[text], quoted=True))
                    literal = False
                case PieceKind.VARIABLE if text in _HARMLESS_VARIABLES:
                    value = self.surroundings.environ.get(text, "")
                    if not piece.quoted and (text.endswith("PWD") or not _PLAIN_VALUE.fullmatch(value)):
                        raise _AsksError
                    opaque = True
                case _:
                    raise _AsksError
        pattern = any(piece.kind is PieceKind.PATTERN for piece in pieces)
        if opaque:
            if pattern:
                raise _AsksError
            digits = all(piece.kind is PieceKind.DIGITS or not piece.text for piece in word.pieces)
            return [_Argument(None, literal=False, digits=digits)]
        if pattern:
            return self._matches(pieces, here.starts)
        text = "".join(piece.text for piece in pieces)
        if not literal and text.startswith("-"):
            raise _AsksError
        return [_Argument(text, literal)]

    def _matches(self, pieces: Sequence[Piece], starts: frozenset[str]) -> list[_Argument]:
        """Return the names that a pattern matches, in each directory where the shell may be, or else the pattern."""
        components: list[list[Piece]] = [[]]
        for piece in pieces:
            head, *others = piece.text.split("/") if piece.kind is PieceKind.TEXT else [piece.text]
            components[-1].append(Piece(piece.kind, head))
            components += [[Piece(piece.kind, text)] for text in others]
        names: list[str] = []
        for start in starts:
            names += self._below_pattern(start, components)
        source = "".join(piece.text for piece in pieces)
        if len(names) > _MAX_NAMES or any(name.startswith("-") for name in names):
            raise _AsksError
        if not names or len(starts) > 1:
            names.append(source)  # what matches nothing stays as it is
        return [_Argument(name, literal=False) for name in sorted(set(names))]

    def _below_pattern(self, start: str, components: Sequence[Sequence[Piece]]) -> list[str]:
        prefixes = [""]
        for number, component in enumerate(components):
            text = "".join(piece.text for piece in component)
            hidden = text.startswith(".")
            slash = "/" if number < len(components) - 1 else ""
            if all(piece.kind is PieceKind.TEXT for piece in component):
                if text == "..":
                    raise _AsksError
                prefixes = [f"{prefix}{text}{slash}" for prefix in prefixes]
                continue
            expression = ""
            for piece in component:
                expression += re.escape(piece.text) if piece.kind is PieceKind.TEXT else _EXPRESSIONS[piece.text]
            matched = []
            for prefix in prefixes:
                if not self._is_below(prefix or ".", frozenset({start})):
                    raise _AsksError
                folder = os.path.join(start, prefix)
                entries = os.listdir(folder) if os.path.isdir(folder) else []
                names = [name for name in entries if name[0] != "."]
                if hidden:
                    names = [*entries, ".", ".."]
                in_bytes = os.fsencode(expression)
                for name in names:
                    # Bash compares characters, and dash bytes: what either finds is judged.
                    is_match = re.fullmatch(expression, name, re.DOTALL)
                    if is_match or re.fullmatch(in_bytes, os.fsencode(name), re.DOTALL):
                        matched.append(f"{prefix}{name}{slash}")
                if len(matched) > _MAX_NAMES:
                    raise _AsksError
            prefixes = matched
        return [prefix for prefix in prefixes if os.path.lexists(os.path.join(start, prefix))]

    # Commands

    def _judge(self, arguments: Sequence[_Argument], starts: frozenset[str]) -> Reading:
        """Judge a command as if it had been typed, and return how sure it is that it only reads.

        Raises:
            _AsksError: if it may do more than read.
        """
        name = arguments[0].text
        if name is None or not arguments[0].literal or name not in PROGRAMS or not self._is_trusted(name):
            raise _AsksError
        self.shows_content = name not in _NAMES_ONLY
        behind = list(arguments[1:])
        if name in _RESPONDS and any((argument.text or "").startswith("@") for argument in behind):
            raise _AsksError
        if name == "git":
            behind, starts = self._git_flags(behind, starts)
        for length in (2, 1, 0):
            key = (name, *(argument.text or "" for argument in behind[:length]))
            usages = USAGES.get(key, ()) if len(key) == length + 1 else ()
            if any(self._fits(usage, behind[length:], starts) for usage in usages):
                break
        else:
            raise _AsksError
        found = Reading.SANDBOXED
        for reading, table in ((Reading.PLAIN, PLAIN_USAGES), (Reading.IDLE, IDLE_USAGES)):
            if any(self._fits(usage, behind[length:], starts) for usage in table.get(key, ())):
                found = reading
        if name == "git" and length and not self._is_within(key[1], behind[1:], starts):
            raise _AsksError
        # `git --version` opens no repository.
        enters_submodules = key[1:2] in (("status",), ("diff",))
        opens = self.surroundings.opens_repository
        if name == "git" and length and not all(opens(Path(start), enters_submodules) for start in starts):
            raise _AsksError
        return found

    def _git_flags(self, arguments: list[_Argument], starts: frozenset[str]) -> tuple[list[_Argument], frozenset[str]]:
        """Return the arguments of Git from its subcommand on, and where it looks for its repository."""
        while arguments and arguments[0].text in _GIT_FLAGS:
            arguments = arguments[1:]
        while len(arguments) > 1 and arguments[0].text == "-C":
            target = arguments[1].text
            if not target or not self._is_below(target, starts):
                raise _AsksError
            starts = frozenset(os.path.realpath(os.path.join(start, target)) for start in starts)
            arguments = arguments[2:]
            while arguments and arguments[0].text in _GIT_FLAGS:
                arguments = arguments[1:]
        return arguments, starts

    def _is_within(self, subcommand: str, arguments: Sequence[_Argument], starts: frozenset[str]) -> bool:
        """Whether a command of Git names no secret, and looks at no files above the directory, which are not shown."""
        words = [argument.text or "" for argument in arguments]
        if any(holds_secret(word.rpartition(":")[2]) for word in words):
            return False
        if subcommand not in ("status", "diff") or {"--cached", "--staged"} & set(words):
            return True
        repository = find_repository(self.surroundings.directory)
        if repository is None or self._is_inside(str(repository.top)):
            return True
        for word in filter(None, words):
            paths = [os.path.join(start, word) for start in starts]
            if all(map(os.path.lexists, paths)):
                return True
        return False

    def _is_trusted(self, name: str) -> bool:
        """Whether the program that the shell starts by its name is none of the project's own."""
        if name in BUILTINS:
            return True
        for entry in self.surroundings.environ.get("PATH", os.defpath).split(os.pathsep):
            if not os.path.isabs(entry):
                return False
            path = os.path.join(entry, name)
            if os.path.isfile(path) and os.access(path, os.X_OK):
                return not (is_of_project(entry, self.project) or is_of_project(path, self.project))
        return True

    def _fits(self, usage: ReadingUse, arguments: Sequence[_Argument], starts: frozenset[str]) -> bool:
        try:
            operands, given, replaced = self._options(usage, arguments, starts)
        except _AsksError:
            return False
        if usage.required and not usage.required & given:
            return False
        kinds = list(usage.operands[1:] if replaced else usage.operands)
        for operand in operands:
            if not kinds or not self._is_kind(kinds[0].rstrip("*?"), operand, starts):
                return False
            if not kinds[0].endswith("*"):
                del kinds[0]
        # A script or pattern that is missing is an error of the program's own.
        return not kinds or kinds[0].endswith(("*", "?")) or kinds[0] in _KINDS

    def _options(
        self, usage: ReadingUse, arguments: Sequence[_Argument], starts: frozenset[str]
    ) -> tuple[list[_Argument], set[str], bool]:
        """Return the operands, the options, and whether one of these takes the first operand's place."""
        if usage.operands[:1] == ("echoed*",) and not usage.required:
            return list(arguments), set(), False
        operands: list[_Argument] = []
        given = set[str]()
        replaced = False
        waiting = list(arguments)
        while waiting:
            argument = waiting.pop(0)
            word = argument.text
            if word is None or not word.startswith("-") or word == "-":
                operands.append(argument)
                continue
            # Where an option is no option, because an operand stands before it, it is a file's name.
            if not self._is_below(word, starts):
                raise _AsksError
            if word == "--" and not usage.words:
                operands += waiting
                break
            split = usage.split(word)
            if split is None:
                raise _AsksError
            for option, value in split:
                given.add(option)
                kind = usage.options[option]
                if not kind or (option in usage.optional and value is None):
                    continue
                values = [_Argument(value)] if value is not None else []
                while len(values) < (2 if kind == "pair" else 1):
                    if not waiting or not (usage.words or self._is_harmless(kind, waiting[0], starts)):
                        raise _AsksError
                    values.append(waiting.pop(0))
                if not all(self._is_kind(kind, one, starts) for one in values):
                    raise _AsksError
                replaced = replaced or kind in ("pattern", "patterns", *usage.operands[:1])
        return operands, given, replaced and usage.operands[:1] != ("path*",)

    def _is_harmless(self, kind: str, value: _Argument, starts: frozenset[str]) -> bool:
        """Whether a value that is a word of its own does no harm where a release takes it for an operand."""
        if kind in ("pattern", "mark", "sed") or re.fullmatch(r"-[0-9]+", value.text or ""):
            return True
        return value.text is not None and value.text[:1] != "-" and self._is_below(value.text, starts)

    def _is_kind(self, kind: str, argument: _Argument, starts: frozenset[str]) -> bool:
        text = argument.text
        if kind == "echoed" or (kind == "tested" and argument.digits):
            return True
        if text is None:
            return False
        match kind:
            case "text" | "mark" | "pattern" | "pair":
                return True
            case "path" | "patterns" | "tested":
                self.names_file = True
                if kind == "path" and text.startswith("+"):
                    return False
                return self._is_below(text, starts) and not self._shows_secret(text, starts)
            case "tree":
                self.names_file = True
                is_open = self._is_below(text, starts) and not self._shows_secret(text, starts)
                return is_open and all(self._is_closed(start, text) for start in starts)
            case "format":
                return not _SIGNATURE.search(text)
            case "plus":
                return text.startswith("+")
            case "name":
                return "/" not in text
            case "printed":
                return not _SETS_VARIABLE.search(text)
            case "archive":
                self.names_file = True
                # Of a file that is not there the program tries the name with a suffix.
                is_there = all(os.path.isfile(os.path.join(start, text)) for start in starts)
                return is_there and _ARCHIVE.fullmatch(text) is not None and self._is_below(text, starts)
            case "setting":
                return text not in _CHANGES_SETTINGS
            case "few":
                return re.fullmatch(r"[0-9]{1,2}", text) is not None
            case "amount":
                return re.fullmatch(r"[-+]?[0-9]+([bcwkmKMGT]i?B?)?", text) is not None
            case "sed" | "awk" | "jq":
                return prints_only(kind, text)
        return text == kind

    # Files

    def _is_inside(self, real: str) -> bool:
        return real == self.root or real.startswith(self.root.rstrip(os.sep) + os.sep)

    def _is_below(self, name: str, starts: frozenset[str]) -> bool:
        """Whether a name, taken in each directory where the shell may be, leads nowhere outside, over links neither.

        Nor may it be a pipe or a device there.
        """
        if name == "/dev/null":
            return True
        paths = [os.path.realpath(os.path.join(start, name)) for start in starts]
        return all(self._is_inside(path) and not _is_special(path) for path in paths)

    def _shows_secret(self, name: str, starts: frozenset[str]) -> bool:
        """Whether the command shows what is in a file of secrets, over links too."""
        if not self.shows_content:
            return False
        paths = [os.path.realpath(os.path.join(start, name)) for start in starts]
        if any(".git" in Path(os.path.normcase(path)).parts for path in (name, *paths)):
            return True  # settings with passwords, and what was stashed
        return holds_secret(name) or any(map(holds_secret, paths))

    def _is_closed(self, start: str, name: str) -> bool:
        """Whether no link below a directory leads outside, and nothing there is a pipe or a device."""
        files = 0
        for folder, folders, names in os.walk(os.path.join(start, name)):
            for entry in (*folders, *names):
                files += 1
                path = os.path.join(folder, entry)
                leads_out = os.path.islink(path) and not self._is_inside(os.path.realpath(path))
                if files > _MAX_NAMES or leads_out or _is_special(path):
                    return False
        return True


def _is_special(path: str) -> bool:
    """Whether a path is a pipe, a device or a socket: what reads it may take something away, or wait for ever."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _is_known(word: Word) -> bool:
    """Whether what the shell makes of a word stands in the line, but for digits such as those of `$?`."""
    return all(piece.kind in (PieceKind.TEXT, PieceKind.DIGITS) for piece in word.pieces)


def _move_on(here: _Here, starts: frozenset[str]) -> _Here:
    if len(starts) > _MAX_STARTS:
        raise _AsksError
    return _Here(starts, here.variables, here.enters, here.plain, here.asks)


def _apart(here: _Here) -> _Here:
    """In a substitution, whose output the shell puts into a word."""
    return _Here(here.starts, here.variables, here.enters, plain=False, asks=here.asks)
