"""Reads the Dockerfiles of benchmarks: one stage, and the instructions that change its files or its environment."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from wane.core.errors import WaneError

IGNORED: Final = frozenset(
    {"CMD", "ENTRYPOINT", "EXPOSE", "HEALTHCHECK", "LABEL", "MAINTAINER", "SHELL", "STOPSIGNAL", "VOLUME"}
)
"""Instructions that change nothing for a task: its commands are run by a harness."""

KNOWN: Final = frozenset({"FROM", "ARG", "ENV", "WORKDIR", "COPY", "ADD", "RUN", "USER"}) | IGNORED

_HEREDOC: Final = re.compile(r"<<(-?)\s*(['\"]?)(\w+)\2")
_FLAG: Final = re.compile(r"^(--[\w-]+(=\S+)?\s+)+")
_VARIABLE: Final = re.compile(r"\$(?:\{(\w+)(?::([-+])([^}]*))?\}|(\w+))")


class DockerfileError(WaneError, ValueError):
    """A Dockerfile that this reader does not understand."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction."""

    word: str  # its name, in capitals
    text: str  # the rest of its line, continued lines joined
    body: str | None  # the text of its here-document; None without one
    line: int  # its first line, from 1


@dataclass(frozen=True, slots=True)
class Dockerfile:
    """The content of a Dockerfile."""

    base: str  # name of the image that it builds on
    arguments: Mapping[str, str]  # values of `ARG` before `FROM`, which the stage may ask for
    steps: tuple[Instruction, ...]  # the instructions after it, in order, without those that change nothing here


def parse(text: str) -> Dockerfile:
    """Return the content of a Dockerfile.

    Raises:
        DockerfileError: for an unknown instruction, a second stage, a here-document without an end, or no `FROM`.
    """
    base = ""
    arguments: dict[str, str] = {}
    steps: list[Instruction] = []
    for instruction in _instructions(text):
        if instruction.word not in KNOWN:
            raise DockerfileError(
                f"Dockerfile, line {instruction.line}: the instruction {instruction.word} is not known"
            )
        if instruction.word == "FROM":
            if base:
                raise DockerfileError(f"Dockerfile, line {instruction.line}: a second stage; only one is supported")
            words = [word for word in instruction.text.split() if not word.startswith("--")]
            base = expand(words[0], arguments) if words else ""
        elif instruction.word == "ARG" and not base:
            arguments |= assignments(instruction, arguments)
        elif not base:
            raise DockerfileError(f"Dockerfile, line {instruction.line}: {instruction.word} before FROM")
        elif instruction.word not in IGNORED:
            steps.append(instruction)
    if not base:
        raise DockerfileError("the Dockerfile names no image: FROM is missing")
    return Dockerfile(base, arguments, tuple(steps))


def assignments(instruction: Instruction, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that an `ENV` or `ARG` sets.

    `variables`: variables that its values may use; of an `ARG` without a value, the value.
    """
    pairs = _words(instruction)
    if instruction.word == "ENV" and pairs and "=" not in pairs[0]:
        # The old form: ENV NAME the whole rest.
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


def copied(instruction: Instruction) -> tuple[tuple[str, ...], str]:
    """Return the sources and the target of a `COPY` or `ADD`.

    Raises:
        DockerfileError: if it copies from another stage or the network, or names no target.
    """
    flags = [word for word in instruction.text.split() if word.startswith("--")]
    if any(flag.startswith("--from") for flag in flags):
        raise DockerfileError(f"Dockerfile, line {instruction.line}: {instruction.word} --from is not supported")
    arguments = without_flags(instruction)
    words = json.loads(arguments) if arguments.startswith("[") else shlex.split(arguments)
    if len(words) < 2:
        raise DockerfileError(f"Dockerfile, line {instruction.line}: {instruction.word} needs a source and a target")
    if any("://" in word for word in words[:-1]):
        raise DockerfileError(
            f"Dockerfile, line {instruction.line}: {instruction.word} from the network is not supported"
        )
    return tuple(words[:-1]), words[-1]


def command(instruction: Instruction) -> str:
    script = without_flags(instruction)
    if instruction.body is None:
        return shlex.join(json.loads(script)) if script.startswith("[") else script
    if script.startswith("<<"):
        return instruction.body
    # A shell's own here-document: the body follows its command, as it was written.
    heredoc = _HEREDOC.search(script)
    return f"{script}\n{instruction.body}{heredoc[3] if heredoc else ''}\n"


def without_flags(instruction: Instruction) -> str:
    """Return the text of an instruction without flags such as `--mount=…`."""
    return _FLAG.sub("", instruction.text.strip() + " ").strip()


def expand(text: str, values: Mapping[str, str]) -> str:
    """Return a text with its variables replaced: `$A`, `${A}`, `${A:-else}`, `${A:+instead}`."""

    def value(match: re.Match[str]) -> str:
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
        raise DockerfileError(f"Dockerfile, line {instruction.line}: {error}") from None


def _instructions(text: str) -> Iterator[Instruction]:
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        first = at + 1
        joined, at = _joined(lines, at)
        word, _, arguments = joined.strip().partition(" ")
        if not word:
            continue
        word = word.upper()
        heredoc = _HEREDOC.search(arguments) if word in ("RUN", "COPY", "ADD") else None
        body = None
        if heredoc:
            body, at = _body(lines, at, heredoc[3], first, dedent=bool(heredoc[1]))
        yield Instruction(word, arguments.strip(), body, first)


def _joined(lines: list[str], at: int) -> tuple[str, int]:
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


def _body(lines: list[str], at: int, end: str, first: int, *, dedent: bool) -> tuple[str, int]:
    body: list[str] = []
    while at < len(lines):
        line = lines[at].lstrip("\t") if dedent else lines[at]
        at += 1
        if line == end:
            return "".join(f"{line}\n" for line in body), at
        body.append(line)
    raise DockerfileError(f"Dockerfile, line {first}: the here-document has no end: {end} is missing")
