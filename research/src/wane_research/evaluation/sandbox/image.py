"""Reads a Dockerfile and builds it as a layer on a base root file system. The layer is cached.

Dockerfiles of benchmarks have one stage, and instructions that change its files or its environment.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Final

from filelock import AsyncFileLock

from wane.core.errors import WaneError
from wane_research.evaluation.sandbox.namespace import (
    SEARCH_PATH,
    Namespace,
    SandboxError,
    put_directory,
    put_file,
    put_text,
)

IGNORED: Final = frozenset(
    {"CMD", "ENTRYPOINT", "EXPOSE", "HEALTHCHECK", "LABEL", "MAINTAINER", "SHELL", "STOPSIGNAL", "VOLUME"}
)
"""Instructions without an effect on a task, whose commands are run by a harness."""

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
    body: str | None  # its here-document; None without one
    line: int  # its first line, from 1

    def error(self, problem: object) -> DockerfileError:
        return DockerfileError(f"Dockerfile, line {self.line}: {problem}")


@dataclass(frozen=True, slots=True)
class Dockerfile:
    """The content of a Dockerfile."""

    base: str  # name of the image that it builds on
    arguments: Mapping[str, str]  # values of `ARG` before `FROM`, which the stage may use
    steps: tuple[Instruction, ...]  # the instructions after `FROM`, in order, without the ignored ones


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
            raise instruction.error(f"the instruction {instruction.word} is not known")
        if instruction.word == "FROM":
            if base:
                raise instruction.error("a second stage; only one is supported")
            words = [word for word in instruction.text.split() if not word.startswith("--")]
            base = expand(words[0], arguments) if words else ""
        elif instruction.word == "ARG" and not base:
            arguments |= assignments(instruction, arguments)
        elif not base:
            raise instruction.error(f"{instruction.word} before FROM")
        elif instruction.word not in IGNORED:
            steps.append(instruction)
    if not base:
        raise DockerfileError("the Dockerfile names no image: FROM is missing")
    return Dockerfile(base, arguments, tuple(steps))


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
    """Return the sources and the target of a `COPY` or `ADD`.

    Raises:
        DockerfileError: if it copies from another stage or the network, or names no target.
    """
    if any(word.startswith("--from") for word in instruction.text.split()):
        raise instruction.error(f"{instruction.word} --from is not supported")
    arguments = without_flags(instruction)
    words = json.loads(arguments) if arguments.startswith("[") else shlex.split(arguments)
    if len(words) < 2:
        raise instruction.error(f"{instruction.word} needs a source and a target")
    if any("://" in word for word in words[:-1]):
        raise instruction.error(f"{instruction.word} from the network is not supported")
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
        heredoc = _HEREDOC.search(arguments) if word in ("RUN", "COPY", "ADD") else None
        body = None
        if heredoc:
            body, at = _body(lines, at, heredoc[3], first, dedent=bool(heredoc[1]))
        yield Instruction(word, arguments.strip(), body, first)


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


def _body(lines: list[str], at: int, end: str, first: int, *, dedent: bool) -> tuple[str, int]:
    body: list[str] = []
    while at < len(lines):
        line = lines[at].lstrip("\t") if dedent else lines[at]
        at += 1
        if line == end:
            return "".join(f"{line}\n" for line in body), at
        body.append(line)
    raise DockerfileError(f"Dockerfile, line {first}: the here-document has no end: {end} is missing")


BASES: Final = Path("/var/tmp/wane-bases")  # noqa: S108 - large, and made by a script of its own
"""The folder of base root file systems, unless the environment's argument `bases` names another."""

VERSION: Final = 1  # version of the way of building; layers of other versions are not used
_META: Final = "layer.json"
_STEP_TIMEOUT: Final = 3600.0
_TOLD: Final = 3000


@dataclass(frozen=True, slots=True)
class Setting:
    """Where commands run: environment variables, a directory, and a user by name or number."""

    env: Mapping[str, str] = field(default_factory=lambda: {"PATH": SEARCH_PATH, "HOME": "/root"})
    workdir: str = "/"
    user: str = "root"


@dataclass(frozen=True, slots=True)
class Layer:
    """A built image: folders of its root file system, the uppermost first, and the setting of its commands."""

    folders: tuple[Path, ...]
    setting: Setting


def base_folder(bases: Path, image: str) -> Path:
    """Return the folder with the root file system of an image: the one of its name, in `bases`."""
    folder = bases / image
    if (folder / "bin").exists():
        return folder
    available = ", ".join(sorted(path.name for path in bases.glob("*:*"))) or "none"
    raise SandboxError(
        f"no root file system for the image {image} in {bases} (available: {available}); "
        "research/docs/evaluation.md says how to make one"
    )


async def build(context: Path, bases: Path, cache: Path, *, force: bool = False) -> Layer:
    """Return the image of the Dockerfile in a folder; build it if it is not in the cache.

    `force`: build it even if it is in the cache.

    Raises:
        DockerfileError: for a Dockerfile that is not supported.
        SandboxError: if there is no base, or a step fails.
    """
    described = parse((context / "Dockerfile").read_text(encoding="utf-8"))
    base = base_folder(bases, described.base)
    home = cache / _key(context, base)
    cache.mkdir(parents=True, exist_ok=True)
    # Another process may be building it, for minutes.
    async with AsyncFileLock(f"{home}.lock"):
        if force or not (home / _META).exists():
            await _build(context, described, base, home)
        data = json.loads((home / _META).read_text(encoding="utf-8"))
    return Layer((home / "upper", base), Setting(**data))


async def _build(context: Path, described: Dockerfile, base: Path, home: Path) -> None:
    await asyncio.to_thread(shutil.rmtree, home, ignore_errors=True)
    space = Namespace()
    await space.up([base], home, network="host")
    try:
        setting = Setting()
        # Variables of `ARG` exist only during the build.
        arguments = {"DEBIAN_FRONTEND": "noninteractive"}
        for step in described.steps:
            if step.word == "ARG":
                arguments |= assignments(step, {**described.arguments, **arguments, **setting.env})
            else:
                setting = await _step(space, context, step, setting, arguments)
    finally:
        await space.down()
    for folder in ("work", "root"):
        shutil.rmtree(home / folder, ignore_errors=True)
    new = home / f"{_META}.new"
    new.write_text(json.dumps(asdict(setting)), encoding="utf-8")
    new.replace(home / _META)


async def _step(
    space: Namespace, context: Path, step: Instruction, setting: Setting, arguments: Mapping[str, str]
) -> Setting:
    variables = {**arguments, **setting.env}
    match step.word:
        case "ENV":
            return replace(setting, env={**setting.env, **assignments(step, variables)})
        case "USER":
            return replace(setting, user=expand(step.text, variables).partition(":")[0])
        case "WORKDIR":
            workdir = os.path.join(setting.workdir, expand(step.text.strip("\"'"), variables))
            await _must(space, step, f"mkdir -p {shlex.quote(workdir)}", Setting())
            return replace(setting, workdir=workdir)
        case "COPY" | "ADD":
            await _copy(space, context, step, setting, variables)
        case "RUN":
            await _must(space, step, command(step), replace(setting, env=variables))
    return setting


async def _copy(
    space: Namespace, context: Path, step: Instruction, setting: Setting, variables: Mapping[str, str]
) -> None:
    patterns, target = parse_copy(step)
    target = expand(target, variables)
    path = os.path.join(setting.workdir, target)
    if step.body is not None:
        await put_text(space, step.body, path)
        return
    matches: list[Path] = []
    for pattern in patterns:
        matches += _matching(context, expand(pattern, variables), step)
    into = len(matches) > 1 or target.endswith(("/", ".")) or not (await space.run(["test", "-d", path])).code
    for source in matches:
        if source.is_dir():
            await put_directory(space, source, path)
        else:
            await put_file(space, source, os.path.join(path, source.name) if into else path)
            if step.word == "ADD" and source.suffix in (".tar", ".gz", ".tgz", ".xz", ".bz2") and ".tar" in source.name:
                raise SandboxError(f"Dockerfile, line {step.line}: ADD of an archive is not supported")


def _matching(context: Path, source: str, step: Instruction) -> list[Path]:
    pattern = source.lstrip("/").removeprefix("./").rstrip("/")
    if pattern in ("", "."):
        return [context]
    files = sorted(context.glob(pattern))
    if not files:
        raise SandboxError(f"Dockerfile, line {step.line}: there is no {source} to copy in {context}")
    return files


async def _must(space: Namespace, step: Instruction, command: str, setting: Setting) -> None:
    shell = ["sh", "-c", command] if not command.startswith("#!") else ["bash", "-c", command]
    try:
        done = await space.run(shell, cwd=setting.workdir, env=setting.env, user=setting.user, timeout=_STEP_TIMEOUT)
    except TimeoutError:
        raise SandboxError(f"Dockerfile, line {step.line}: took more than {_STEP_TIMEOUT:g} seconds") from None
    if done.code:
        raise SandboxError(
            f"Dockerfile, line {step.line}: ended with {done.code}: {command[:200]}\n{done.output[-_TOLD:]}"
        )


def _key(context: Path, base: Path) -> str:
    """A name for the layer: a digest of everything it is made of."""
    digest = sha256(f"{VERSION}\0{base.resolve()}\0{base.stat().st_mtime_ns}".encode())
    for path in sorted(context.rglob("*")):
        name = path.relative_to(context).as_posix()
        if path.is_symlink():
            digest.update(f"\0{name}\0{path.readlink()}".encode())
        elif path.is_file():
            digest.update(f"\0{name}\0{path.stat().st_mode & 0o111}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:24]
