"""Reads a command line as `sh` and `bash` both would, or not at all.

What runs without a question rests on this reader, so it knows a part of the shell's grammar and refuses the rest: what
the two shells read differently (`[[`, `((`, `$'…'`, `case`), what they expand once more (`${x:-…}`, escapes within
backticks), and characters that some of them take as blanks. A construct that it does not know is refused by raising
`UnreadableError`, never skipped. It decides at each word, once, whether the shell leaves the word as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeAlias

from wane.tools.programs import word_set

_MAX_DEPTH: Final = 20
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]|[^\S \t\n]")
"""Control characters, and spaces that separate words for some programs only."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9_./,:=@%+^-]+")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_STATUS: Final = re.compile(r"\$(?:[?#$]|\{[?#]\}|\(\([0-9 +*%-]*\)\))")
"""What becomes digits: `$?`, `$#`, `$$` and sums of numbers."""
_VARIABLE: Final = re.compile(r"\$(?:(?P<bare>[A-Za-z_][A-Za-z0-9_]*)|\{(?P<braced>[A-Za-z_][A-Za-z0-9_]*)\})")
_POSITIONAL: Final = re.compile(r"\$[0-9@*!-]")
_REVISION: Final = re.compile(r"\{[A-Za-z0-9_-]*\}")
"""The braces of `stash@{0}` and `@{u}`; without a comma or two dots, no shell expands them."""
_REDIRECTION: Final = re.compile(r"\d?(?P<operator>&>>|&>|<<<|<<-|<<|<>|>>|>\||>&|<&|>|<)")
_DELIMITER: Final = re.compile(r"(?:'(?P<single>\w+)'|\"(?P<double>\w+)\"|(?P<bare>\w+))(?=[\s;&|)<>]|\Z)", re.ASCII)
_FUNCTION: Final = re.compile(r"[ \t]*\([ \t]*\)")
_RAW: Final = re.compile(r"[$`\\]")
_END_OF_WORD: Final = frozenset(" \t\n;&|<>()")
_RESERVED: Final = re.compile(r"[a-z]+|[{}!]|\[\[|\]\]")
_BRACKET: Final = re.compile(r"(?:[\[\]!]|!=)(?=[\s;&|<>()]|\Z)")
"""Words of `test` and `find` that are one mark; `!` begins no history mark in front of a blank or `=`."""
_REFUSED: Final = word_set("then elif else fi do done case esac in select function coproc [[ ]] } {")
"""Reserved words where a command begins, unless the construct around them expects them."""


class UnreadableError(Exception):
    """The line has a construct that cannot be read with certainty."""


class PieceKind(Enum):
    """What the shell makes of a piece of a word."""

    TEXT = "text"
    """The text itself."""
    PATTERN = "pattern"
    """`*` or `?`: names of files."""
    DIGITS = "digits"
    VARIABLE = "variable"
    OUTPUT = "output"
    """The output of a substitution."""
    EXPANDED = "expanded"
    """Something else: braces, a tilde, a set of characters, a history mark."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a word; `text` is what it stands for, or a variable's name."""

    kind: PieceKind
    text: str = ""
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    """A word: its text in the line, its pieces, and the scripts of its substitutions."""

    source: str
    pieces: tuple[Piece, ...]
    nested: tuple[Script, ...] = ()

    @property
    def literal(self) -> str | None:
        """The word as the program receives it; None unless the shell leaves it as it is."""
        if any(piece.kind is not PieceKind.TEXT for piece in self.pieces):
            return None
        return "".join(piece.text for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class Redirection:
    """A redirection to or from a file; `operator` is `<`, or `>` for everything that may write."""

    operator: str
    target: Word


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """A simple command with its words, assignments among them, and its redirections."""

    text: str
    words: tuple[Word, ...]
    redirections: tuple[Redirection, ...] = ()
    nested: tuple[Script, ...] = ()
    """Scripts of substitutions, in the order in which they stand."""
    fed: bool = False
    """Whether its input is a here-document, or another descriptor."""


class CompoundForm(Enum):
    """How the parts of a compound command run."""

    LIST = "list"
    """One after the other, in this shell, though not all of them must run."""
    CHAIN = "chain"
    """Likewise, each only after the one before has succeeded."""
    APART = "apart"
    """In shells of their own: a pipe, `( … )`."""
    FOR = "for"
    LOOP = "loop"
    FUNCTION = "function"
    BACKGROUND = "background"


@dataclass(frozen=True, slots=True)
class Compound:
    """Commands that run together."""

    form: CompoundForm
    children: tuple[Script, ...]
    redirections: tuple[Redirection, ...] = ()
    variable: str = ""
    """The variable of a `for`."""
    values: tuple[Word, ...] = ()
    """The words that it takes."""
    fed: bool = False
    """Whether its input is a here-document, or another descriptor."""


Script: TypeAlias = SimpleCommand | Compound


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A command line: what it runs, and whether it has raw text that a shell might read in another way."""

    script: Compound
    raw: bool


def read_line(text: str) -> CommandLine:
    """Return what a command line runs.

    Raises:
        UnreadableError: if it cannot be read with certainty.
    """
    if _CONTROL.search(text):
        raise UnreadableError
    reader = _Reader(text)
    script = reader.read_list(frozenset())
    if reader.position < len(text) or reader.awaited or not script.children:
        raise UnreadableError
    return CommandLine(script, reader.raw)


def simple_commands(script: Script) -> Iterator[SimpleCommand | Redirection]:
    """Yield the simple commands of a script and the redirections of its compounds, those of substitutions included."""
    match script:
        case SimpleCommand():
            yield script
            for nested in script.nested:
                yield from simple_commands(nested)
        case Compound():
            for value in script.values:
                for nested in value.nested:
                    yield from simple_commands(nested)
            for child in script.children:
                yield from simple_commands(child)
    for redirection in script.redirections:
        yield redirection
        if isinstance(script, Compound):
            for nested in redirection.target.nested:
                yield from simple_commands(nested)


@dataclass(slots=True)
class _Reader:
    """Reads from left to right. Each method begins at a token, and ends behind what it has read."""

    text: str
    position: int = 0
    depth: int = 0
    raw: bool = False
    awaited: list[tuple[str, bool, bool]] = field(default_factory=list)
    """Here-documents whose text begins after the next newline: delimiter, whether quoted, whether indented."""

    def read_list(self, ends: frozenset[str]) -> Compound:
        """Read commands up to one of these reserved words, a closing parenthesis, or the end of the text."""
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise UnreadableError
        children: list[Script] = []
        while True:
            self._skip_newlines()
            if self._peek() in ("", ")") or self._read_reserved_word() in ends:
                break
            command = self._and_or()
            self._skip_blanks()
            if self._peek() == "&":
                self.position += 1
                command = Compound(CompoundForm.BACKGROUND, (command,))
            elif self._peek() == ";":
                self.position += 1
            elif self._peek() not in ("", ")", "\n"):
                raise UnreadableError
            children.append(command)
        self.depth -= 1
        return Compound(CompoundForm.LIST, tuple(children))

    def _peek(self, length: int = 1) -> str:
        return self.text[self.position : self.position + length]

    def _skip_blanks(self) -> None:
        """Skip blanks, continued lines and a comment. A continuation within a word is refused where words are read."""
        while True:
            if self._peek() in (" ", "\t"):
                self.position += 1
            elif self._peek(2) == "\\\n" and self.text[self.position - 1 : self.position] in (" ", "\t", "\n"):
                # Elsewhere it would join two characters to an operator.
                self.position += 2
                if self._peek() == "#":
                    raise UnreadableError
            else:
                break
        if self._peek() == "#":
            end = self.text.find("\n", self.position)
            self.position = len(self.text) if end < 0 else end

    def _skip_newlines(self) -> None:
        self._skip_blanks()
        while self._peek() == "\n":
            self.position += 1
            self._read_awaited()
            self._skip_blanks()

    def _read_awaited(self) -> None:
        for delimiter, quoted, indented in self.awaited:
            while True:
                if self.position >= len(self.text):
                    raise UnreadableError
                end = self.text.find("\n", self.position)
                end = len(self.text) if end < 0 else end
                content = self.text[self.position : end]
                self.position = min(end + 1, len(self.text))
                if (content.lstrip("\t") if indented else content) == delimiter:
                    break
                if _RAW.search(content) and not quoted:
                    raise UnreadableError
                self.raw = self.raw or _RAW.search(content) is not None
            # The newline behind the last delimiter separates commands.
            self.position = end
        if self.awaited:
            self.awaited.clear()

    def _read_reserved_word(self) -> str:
        """Return the unquoted word that begins here if nothing else continues it; empty if there is none."""
        match = _RESERVED.match(self.text, self.position)
        if match is None or self.text[match.end() : match.end() + 1] not in ("", *_END_OF_WORD):
            return ""
        return match[0]

    def _take(self, reserved: str) -> None:
        if self._read_reserved_word() != reserved:
            raise UnreadableError
        self.position += len(reserved)

    def _and_or(self) -> Script:
        children = [self._pipeline()]
        form = CompoundForm.CHAIN
        while True:
            self._skip_blanks()
            operator = self._peek(2)
            if operator not in ("&&", "||"):
                break
            form = CompoundForm.LIST if operator == "||" else form
            self.position += 2
            self._skip_newlines()
            children.append(self._pipeline())
        return children[0] if len(children) == 1 else Compound(form, tuple(children))

    def _pipeline(self) -> Script:
        negated = self._read_reserved_word() == "!"
        if negated:
            self.position += 1
            self._skip_blanks()
        children = [self._command()]
        while True:
            self._skip_blanks()
            if self._peek() != "|" or self._peek(2) in ("||", "|&"):
                break
            self.position += 1
            self._skip_newlines()
            children.append(self._command())
        pipeline = children[0] if len(children) == 1 else Compound(CompoundForm.APART, tuple(children))
        # Behind `!` the line goes on where the pipeline failed, so what it does, such as `cd`, is not certain: a list.
        return Compound(CompoundForm.LIST, (pipeline,)) if negated else pipeline

    def _command(self) -> Script:
        if self._peek() == "(":
            if self._peek(2) == "((":
                raise UnreadableError
            self.position += 1
            script = self.read_list(frozenset())
            if self._peek() != ")" or not script.children:
                raise UnreadableError
            self.position += 1
            return self._read_redirections(CompoundForm.APART, (script,))
        match self._read_reserved_word():
            case "{":
                self.position += 1
                children: tuple[Script, ...] = (self.read_list(frozenset({"}"})),)
                self._take("}")
                return self._read_redirections(CompoundForm.LIST, children)
            case "if":
                return self._read_redirections(CompoundForm.LIST, tuple(self._branches()))
            case "for":
                return self._for()
            case "while" | "until" as keyword:
                self.position += len(keyword)
                condition = self.read_list(frozenset({"do"}))
                return self._read_redirections(CompoundForm.LOOP, (condition, self._do()))
            case "!":
                raise UnreadableError
            case word if word in _REFUSED:
                raise UnreadableError
        return self._simple()

    def _substitution(self) -> Compound:
        """Read a script that is part of a word, up to its closing parenthesis."""
        outer, self.awaited = self.awaited, []
        script = self.read_list(frozenset())
        # A here-document that has not begun where its substitution ends is read differently by each shell.
        if self._peek() != ")" or self.awaited or not script.children:
            raise UnreadableError
        self.position += 1
        self.awaited = outer
        return script

    def _branches(self) -> Iterator[Script]:
        self._take("if")
        yield self.read_list(frozenset({"then"}))
        self._take("then")
        while True:
            yield self.read_list(frozenset({"elif", "else", "fi"}))
            match self._read_reserved_word():
                case "elif":
                    self._take("elif")
                    yield self.read_list(frozenset({"then"}))
                    self._take("then")
                case "else":
                    self._take("else")
                    yield self.read_list(frozenset({"fi"}))
                    self._take("fi")
                    return
                case _:
                    self._take("fi")
                    return

    def _for(self) -> Script:
        self._take("for")
        self._skip_blanks()
        name = _NAME.match(self.text, self.position)
        # A loop assigns its variable, and those that say what runs, such as PATH, are written in capitals.
        if name is None or not name[0].islower():
            raise UnreadableError
        self.position = name.end()
        self._skip_blanks()
        self._take("in")
        values = []
        while True:
            self._skip_blanks()
            if self._peek() in (";", "\n"):
                break
            values.append(self._word())
        if self._peek() == ";":
            self.position += 1
        self._skip_newlines()
        loop = self._read_redirections(CompoundForm.FOR, (self._do(),))
        return Compound(CompoundForm.FOR, loop.children, loop.redirections, name[0], tuple(values), loop.fed)

    def _do(self) -> Compound:
        self._take("do")
        body = self.read_list(frozenset({"done"}))
        self._take("done")
        return body

    def _read_redirections(self, form: CompoundForm, children: tuple[Script, ...]) -> Compound:
        redirections: list[Redirection] = []
        fed = False
        while True:
            self._skip_blanks()
            match = _REDIRECTION.match(self.text, self.position)
            if match is None:
                break
            fed = fed or _feeds(match["operator"])
            target = self._redirection(match)
            redirections += [target] if isinstance(target, Redirection) else []
        return Compound(form, children, tuple(redirections), fed=fed)

    def _simple(self) -> Script:
        words: list[Word] = []
        redirections: list[Redirection] = []
        nested: list[Script] = []
        begins = ends = self.position
        redirected = parted = fed = False
        while True:
            self._skip_blanks()
            char = self._peek()
            match = _REDIRECTION.match(self.text, self.position)
            # `<(…)` and `>(…)` are words, which dash refuses.
            if match and not (match[0] in ("<", ">") and self.text.startswith("(", match.end())):
                redirected = True
                fed = fed or _feeds(match["operator"])
                if redirection := self._redirection(match):
                    nested += redirection.target.nested
                    redirections.append(redirection)
                continue
            if not char or char in "\n;|)&":
                break
            if char == "(":
                return self._function(words, redirections)
            begins = begins if words else self.position
            parted = parted or (redirected and bool(words))
            word = self._process() if char in "<>" else self._word()
            nested += word.nested
            words.append(word)
            ends = self.position
        if not words and not redirected:
            raise UnreadableError
        # A redirection between words is no part of the command's text.
        sources = [word.source for word in words]
        text = " ".join(sources) if parted else self.text[begins:ends]
        return SimpleCommand(text, tuple(words), tuple(redirections), tuple(nested), fed)

    def _function(self, words: list[Word], redirections: list[Redirection]) -> Script:
        head = _FUNCTION.match(self.text, self.position)
        if len(words) != 1 or redirections or head is None or not _NAME.fullmatch(words[0].source):
            raise UnreadableError
        self.position = head.end()
        self._skip_newlines()
        if self._peek() != "(" and self._read_reserved_word() != "{":
            raise UnreadableError
        return Compound(CompoundForm.FUNCTION, (self._command(),))

    def _process(self) -> Word:
        start = self.position
        self.position += 2
        script = self._substitution()
        return Word(self.text[start : self.position], (Piece(PieceKind.EXPANDED),), (script,))

    def _redirection(self, match: re.Match[str]) -> Redirection | None:
        """Read a redirection; None if it names no file."""
        operator = match["operator"]
        self.position = match.end()
        self._skip_blanks()
        if operator in ("<<", "<<-"):
            delimiter = _DELIMITER.match(self.text, self.position)
            if delimiter is None:
                raise UnreadableError
            self.position = delimiter.end()
            name = delimiter["single"] or delimiter["double"] or delimiter["bare"]
            self.awaited.append((name, delimiter["bare"] is None, operator == "<<-"))
            return None
        if self._peek() in ("", "\n") or self._peek() in _END_OF_WORD:
            raise UnreadableError
        target = self._word()
        if operator == "<<<":
            if target.literal is None or _RAW.search(target.source):
                raise UnreadableError
            return None
        if operator in (">&", "<&") and re.fullmatch(r"\d|-", target.source):
            return None
        return Redirection("<" if operator == "<" else ">", target)

    def _word(self) -> Word:
        start = self.position
        pieces: list[Piece] = []
        nested: list[Script] = []
        while self.position < len(self.text) and self._peek() not in _END_OF_WORD:
            self._piece(start, pieces, nested)
        if self.position == start:
            raise UnreadableError
        source = self.text[start : self.position]
        if self.awaited and "\n" in source:
            raise UnreadableError  # a here-document begins at the next newline, but not at this one
        return Word(source, tuple(pieces), tuple(nested))

    def _piece(self, start: int, pieces: list[Piece], nested: list[Script]) -> None:
        if plain := _PLAIN.match(self.text, self.position):
            self.position = plain.end()
            pieces.append(Piece(PieceKind.TEXT, plain[0]))
            return
        char = self._peek()
        before = self.text[start : self.position]
        match char:
            case "'":
                end = self.text.find("'", self.position + 1)
                if end < 0:
                    raise UnreadableError
                pieces.append(Piece(PieceKind.TEXT, self.text[self.position + 1 : end], quoted=True))
                self.position = end + 1
            case '"':
                self.position += 1
                self._read_quoted(pieces, nested)
            case "\\":
                escaped = self.text[self.position + 1 : self.position + 2]
                if not escaped or escaped == "\n" or not escaped.isascii():
                    raise UnreadableError
                pieces.append(Piece(PieceKind.TEXT, escaped, quoted=True))
                self.position += 2
            case "$":
                self._dollar(pieces, nested, quoted=False)
            case "`":
                end = self.text.find("`", self.position + 1)
                content = self.text[self.position + 1 : end]
                if end < 0 or "\\" in content or "<<" in content:
                    raise UnreadableError
                nested.append(self._inner(content))
                pieces.append(Piece(PieceKind.OUTPUT))
                self.position = end + 1
            case "*" | "?":
                pieces.append(Piece(PieceKind.PATTERN, char))
                self.position += 1
            case "#" if before:
                pieces.append(Piece(PieceKind.TEXT, char))
                self.position += 1
            case "~" if re.search(r"[A-Za-z0-9_^}]\Z", before):
                pieces.append(Piece(PieceKind.TEXT, char))  # `HEAD~1`
                self.position += 1
            case "{" if before.endswith("@") or not before:
                revision = _REVISION.match(self.text, self.position)
                kind = PieceKind.TEXT if revision and (before or revision[0] == "{}") else PieceKind.EXPANDED
                pieces.append(Piece(kind, revision[0] if revision else char))
                self.position = revision.end() if revision else self.position + 1
            case "[" | "]" | "!" if not before and _BRACKET.match(self.text, start):
                pieces.append(Piece(PieceKind.TEXT, char))
                self.position += 1
            case "[" | "]" | "{" | "}" | "~" | "!":
                pieces.append(Piece(PieceKind.EXPANDED, char))
                self.position += 1
            case _:
                raise UnreadableError

    def _inner(self, content: str) -> Compound:
        reader = _Reader(content, depth=self.depth)
        script = reader.read_list(frozenset())
        if reader.position < len(content) or reader.awaited or not script.children:
            raise UnreadableError
        return script

    def _read_quoted(self, pieces: list[Piece], nested: list[Script]) -> None:
        """Read up to the closing double quote."""
        text: list[str] = []
        while (char := self._peek()) != '"':
            match char:
                case "" | "`":
                    raise UnreadableError
                case "\\":
                    escaped = self.text[self.position + 1 : self.position + 2]
                    if escaped in ("", "\n"):
                        raise UnreadableError
                    text.append(escaped if escaped in '$`"\\' else char + escaped)
                    self.position += 2
                case "$":
                    pieces.append(Piece(PieceKind.TEXT, "".join(text), quoted=True))
                    text.clear()
                    self._dollar(pieces, nested, quoted=True)
                case _:
                    text.append(char)
                    self.position += 1
        pieces.append(Piece(PieceKind.TEXT, "".join(text), quoted=True))
        self.position += 1

    def _dollar(self, pieces: list[Piece], nested: list[Script], *, quoted: bool) -> None:
        if match := _STATUS.match(self.text, self.position):
            pieces.append(Piece(PieceKind.DIGITS, match[0], quoted))
            self.position = match.end()
        elif match := _VARIABLE.match(self.text, self.position):
            name = match["bare"] or match["braced"]
            # bash reads a subscript behind a name in braces only, but other shells behind a bare one too.
            pieces.append(Piece(PieceKind.VARIABLE, name, quoted))
            self.position = match.end()
        elif match := _POSITIONAL.match(self.text, self.position):
            pieces.append(Piece(PieceKind.EXPANDED, match[0], quoted))
            self.position = match.end()
        elif self._peek(2) == "$(" and self._peek(3) != "$((":
            self.position += 2
            nested.append(self._substitution())
            pieces.append(Piece(PieceKind.OUTPUT, quoted=quoted))
        else:
            following = self.text[self.position + 1 : self.position + 2]
            if following not in (' |)/.,:;%"' if quoted else " \t\n"):
                raise UnreadableError
            pieces.append(Piece(PieceKind.TEXT, "$", quoted))
            self.position += 1


def _feeds(operator: str) -> bool:
    """Whether a redirection brings input that is no file with a part of its own, as that of `<` is."""
    return operator in ("<<", "<<-", "<<<", "<&", "<>")


def is_assignment(word: Word) -> bool:
    """Whether a word in front of a command sets a variable."""
    return _ASSIGNMENT.match(word.source) is not None
