"""Reads a Dockerfile: its stages, and what the instructions of each say."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from wane.core.errors import WaneError

IGNORED: Final = frozenset(
    {"CMD", "ENTRYPOINT", "EXPOSE", "HEALTHCHECK", "LABEL", "MAINTAINER", "STOPSIGNAL", "VOLUME"}
)
"""Instructions without an effect on a task, whose commands are run by a harness."""

KNOWN: Final = frozenset({"FROM", "ARG", "ENV", "WORKDIR", "COPY", "ADD", "RUN", "USER", "SHELL"}) | IGNORED

MOUNTS: Final = frozenset({"cache", "tmpfs"})
"""Kinds of mounts of a `RUN` that it does without: they are empty at first, and no image keeps them."""

# A word of a line, quotes and all: what is quoted, such as "a << b", opens no here-document.
_WORD: Final = re.compile(r"""(?:\\.|'[^']*'|"(?:\\.|[^"\\])*"|[^\s'"\\])+""")
# `<<<` is a string for a shell, and `1<<2` in arithmetic a shift.
_HEREDOC: Final = re.compile(r"\d*<<(-?)\s*(['\"]?)([^\s<>|&;()'\"]+)\2(?=[\s>|&;]|$)")
_FLAGS: Final = re.compile(r"^(--[\w-]+(=\S+)?\s+)+")
_VARIABLE: Final = re.compile(r"\\\$|\$(?:\{(\w+)(?::([-+])([^}]*))?\}|(\w+))")


class DockerfileError(WaneError, ValueError):
    """A Dockerfile that this reader does not understand."""


@dataclass(frozen=True, slots=True)
class HereDocument:
    """The lines that follow an instruction, up to one that holds only a name."""

    name: str
    text: str
    is_quoted: bool  # whether variables in it stay as they are written


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction."""

    word: str  # its name, in capitals
    text: str  # the rest of its line, continued lines joined
    documents: tuple[HereDocument, ...]  # in order
    line: int  # its first line, from 1

    def describe(self, problem: object) -> str:
        return f"Dockerfile, line {self.line}: {problem}"

    def error(self, problem: object) -> DockerfileError:
        return DockerfileError(self.describe(problem))


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage: what it builds on, and how."""

    name: str  # in small letters; "" without one
    base: str  # name of an image, or of an earlier stage
    steps: tuple[Instruction, ...]  # its instructions in order, without the ignored ones


@dataclass(frozen=True, slots=True)
class Dockerfile:
    """The content of a Dockerfile."""

    arguments: Mapping[str, str]  # values of `ARG` before the first `FROM`, which a stage may use
    stages: tuple[Stage, ...]  # in order; the last one is the image

    def find_base(self, stage: int) -> int | None:
        """Return the number of the stage that a stage builds on; None if that is an image."""
        return self._find(self.stages[stage].base, stage)

    def find_source(self, name: str, stage: int) -> int | None:
        """Return the number of the stage that a name, or a number, in a `COPY --from` means; None for an image."""
        if name.isdigit() and int(name) < stage:
            return int(name)
        return self._find(name, stage)

    def _find(self, name: str, before: int) -> int | None:
        earlier = reversed(range(before))
        return next((number for number in earlier if self.stages[number].name == name.lower()), None)

    def needed_stages(self) -> list[int]:
        """Return the stages that the last one needs, itself included, in order. Docker builds no others either."""
        needed = {len(self.stages) - 1}
        for number in reversed(range(len(self.stages))):
            if number in needed:
                sources = [self.find_source(name, number) for name in self._list_sources(number)]
                needed |= {source for source in (self.find_base(number), *sources) if source is not None}
        return sorted(needed)

    def needed_images(self) -> tuple[list[str], list[str]]:
        """Return the names of the images that the needed stages build on, and of those that they only copy from."""
        needed = self.needed_stages()
        bases = [self.stages[number].base for number in needed if self.find_base(number) is None]
        copied = [
            name for number in needed for name in self._list_sources(number) if self.find_source(name, number) is None
        ]
        return list(dict.fromkeys(bases)), list(dict.fromkeys(copied))

    def _list_sources(self, number: int) -> list[str]:
        flags = [flags_of(step) for step in self.stages[number].steps if step.word == "COPY"]
        return [given["from"] for given in flags if "from" in given]


def parse(text: str) -> Dockerfile:
    """Return the content of a Dockerfile.

    Raises:
        DockerfileError: for an unknown instruction, a here-document without an end, or no `FROM`.
    """
    arguments: dict[str, str] = {}
    openings: list[Instruction] = []
    steps: list[list[Instruction]] = []
    for instruction in _instructions(text):
        if instruction.word not in KNOWN:
            raise instruction.error(f"the instruction {instruction.word} is not known")
        if instruction.word == "FROM":
            openings.append(instruction)
            steps.append([])
        elif steps and instruction.word not in IGNORED:
            steps[-1].append(instruction)
        elif not steps and instruction.word == "ARG":
            arguments |= assignments(instruction, arguments)
        elif not steps:
            raise instruction.error(f"{instruction.word} before FROM")
    if not openings:
        raise DockerfileError("the Dockerfile names no image: FROM is missing")
    stages = [_stage(opening, own, arguments) for opening, own in zip(openings, steps, strict=True)]
    return Dockerfile(arguments, tuple(stages))


def _stage(opening: Instruction, steps: list[Instruction], arguments: Mapping[str, str]) -> Stage:
    words = without_flags(opening).split()
    named = len(words) == 3 and words[1].lower() == "as"
    if not named and len(words) != 1:
        raise opening.error("FROM needs an image, and AS before a name of the stage")
    return Stage(words[2].lower() if named else "", expand(words[0], arguments), tuple(steps))


def assignments(instruction: Instruction, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that an `ENV` or `ARG` sets.

    `variables`: variables that its values may use, and the value of an `ARG` without one.
    """
    pairs = _words(instruction)
    if instruction.word == "ENV" and pairs and "=" not in pairs[0]:
        # The old form: ENV NAME VALUE, where the value is the rest of the line.
        name, _, value = instruction.text.strip().partition(" ")
        return {name: expand(value.strip(), variables)}
    values: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if equals:
            values[name] = expand(value, {**variables, **values})
        elif name in variables:
            values[name] = variables[name]
    return values


def parse_copy(instruction: Instruction) -> tuple[tuple[str, ...], str]:
    """Return the sources and the target of a `COPY` or `ADD`; here-documents are not among the sources.

    Raises:
        DockerfileError: if it copies from the network, names no target, or has a flag that is not known.
    """
    arguments = without_flags(instruction)
    words = _read_list(arguments) or shlex.split(arguments)
    if len(words) < 2:
        raise instruction.error(f"{instruction.word} needs a source and a target")
    if any("://" in word or word.startswith("git@") for word in words[:-1]):
        raise instruction.error(f"{instruction.word} from the network is not supported")
    if unknown := flags_of(instruction).keys() - {"from", "chown", "chmod", "link"}:
        raise instruction.error(f"{instruction.word} --{min(unknown)} is not supported")
    return tuple(word for word in words[:-1] if not word.startswith("<<")), words[-1]


def shell_of(instruction: Instruction) -> list[str]:
    """Return the program and its arguments that a `SHELL` names, which run a command."""
    if words := _read_list(instruction.text):
        return words
    raise instruction.error('SHELL needs a list, such as ["/bin/bash", "-c"]')


def _read_list(text: str) -> list[str] | None:
    """Return the words of a list in JSON; None for other text, which may begin with a bracket, too."""
    try:
        words = json.loads(text)
    except ValueError:
        return None
    if not isinstance(words, list) or any(not isinstance(word, str) for word in words):
        return None
    return words


def command(instruction: Instruction) -> str:
    """Return the command of a `RUN` as a script for a shell.

    Raises:
        DockerfileError: if it needs files that are mounted for it alone.
    """
    for word in _flag_words(instruction):
        if word.startswith("--mount=") and _kind_of_mount(word) not in MOUNTS:
            raise instruction.error(f"RUN --mount=type={_kind_of_mount(word)} is not supported")
    script = without_flags(instruction)
    documents = instruction.documents
    if not documents:
        words = _read_list(script)
        return shlex.join(words) if words else script
    if script.startswith("<<"):
        return documents[0].text
    # A shell's own here-documents: they follow their command, as they were written.
    return f"{script}\n" + "".join(f"{document.text}{document.name}\n" for document in documents)


def _kind_of_mount(flag: str) -> str:
    options = flag.removeprefix("--mount=").split(",")
    return next((option.removeprefix("type=") for option in options if option.startswith("type=")), "bind")


def flags_of(instruction: Instruction) -> dict[str, str]:
    """Return the flags of an instruction, such as `--from=build`, by their names without dashes."""
    return dict(word.removeprefix("--").partition("=")[::2] for word in _flag_words(instruction))


def _flag_words(instruction: Instruction) -> list[str]:
    flags = _FLAGS.match(instruction.text.strip() + " ")
    return flags[0].split() if flags else []


def without_flags(instruction: Instruction) -> str:
    """Return the text of an instruction without flags such as `--mount=…`."""
    return _FLAGS.sub("", instruction.text.strip() + " ").strip()


def expand(text: str, values: Mapping[str, str]) -> str:
    r"""Return a text with its variables replaced: `$A`, `${A}`, `${A:-else}`, `${A:+instead}`; `\$` is a dollar."""

    def value(match: re.Match[str]) -> str:
        if match[0].startswith("\\"):
            return "$"
        name, operator, word = match[1] or match[4], match[2], match[3]
        current = values.get(name, "")
        if operator == "-":
            return current or word
        if operator == "+":
            return word if current else ""
        return current

    return _VARIABLE.sub(value, text)


def _words(instruction: Instruction) -> list[str]:
    try:
        return shlex.split(instruction.text)
    except ValueError as error:
        raise instruction.error(error) from None


def _instructions(text: str) -> Iterator[Instruction]:
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        first = at + 1
        joined, at = _join_line(lines, at)
        word, _, arguments = joined.strip().partition(" ")
        if not word:
            continue
        word = word.upper()
        documents: list[HereDocument] = []
        for dash, quote, name in _find_openings(arguments) if word in ("RUN", "COPY", "ADD") else ():
            text, at = _read_document(lines, at, name, first, dedent=bool(dash))
            documents.append(HereDocument(name, text, bool(quote)))
        yield Instruction(word, arguments.strip(), tuple(documents), first)


def _find_openings(arguments: str) -> list[tuple[str, str, str]]:
    """Return the dash, the quote and the name of each here-document that a line opens."""
    found = [_HEREDOC.match(arguments, word.start()) for word in _WORD.finditer(arguments)]
    return [(match[1], match[2], match[3]) for match in found if match]


def _join_line(lines: list[str], at: int) -> tuple[str, int]:
    """Return a line with those that continue it, without comments; "" for a comment or an empty line."""
    parts: list[str] = []
    while at < len(lines):
        line = lines[at].rstrip()
        at += 1
        if line.lstrip().startswith("#") or not line.strip():
            if parts:
                continue  # comments and empty lines do not end a continued line
            return "", at
        if not line.endswith("\\"):
            parts.append(line)
            break
        parts.append(line[:-1])
    return " ".join(parts), at


def _read_document(lines: list[str], at: int, end: str, first: int, *, dedent: bool) -> tuple[str, int]:
    body: list[str] = []
    while at < len(lines):
        line = lines[at].lstrip("\t") if dedent else lines[at]
        at += 1
        if line == end:
            return "".join(f"{line}\n" for line in body), at
        body.append(line)
    raise DockerfileError(f"Dockerfile, line {first}: the here-document has no end: {end} is missing")
