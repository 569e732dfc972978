"""Builds a Dockerfile into a layer on a base root file system, once: the layer is kept and used again."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Final

from filelock import AsyncFileLock

from wane_research.evaluation.sandbox import dockerfile
from wane_research.evaluation.sandbox.dockerfile import Dockerfile, Instruction
from wane_research.evaluation.sandbox.namespace import (
    SEARCH_PATH,
    Namespace,
    SandboxError,
    put_directory,
    put_file,
    put_text,
)

BASES: Final = Path("/var/tmp/wane-bases")  # noqa: S108 - large, and made by a script of its own
"""The folder of base root file systems, unless the environment's argument `bases` names another."""

VERSION: Final = 1  # version of the way of building; layers of other versions are not used
_META: Final = "layer.json"
_STEP_TIMEOUT: Final = 3600.0
_TOLD: Final = 3000


@dataclass(frozen=True, slots=True)
class Setting:
    """The setting of commands: environment variables, a directory, and a user by name or number."""

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
    available = sorted(path.name for path in bases.glob("*:*")) if bases.is_dir() else []
    raise SandboxError(
        f"no root file system for the image {image} in {bases} (there: {', '.join(available) or 'none'}); "
        "docs/evaluation/README.md says how to make one"
    )


async def build(context: Path, bases: Path, cache: Path, *, force: bool = False) -> Layer:
    """Return the image that the Dockerfile in a folder describes; built if it is not in the cache.

    Args:
        context: the folder, whose files it may copy.
        bases: folder with a root file system for each base image.
        cache: folder for layers.
        force: build it even if it is there.

    Raises:
        DockerfileError: for a Dockerfile that is not understood.
        SandboxError: if there is no base, or a step fails.
    """
    described = dockerfile.parse((context / "Dockerfile").read_text(encoding="utf-8"))
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
                arguments |= dockerfile.assignments(step, {**described.arguments, **arguments, **setting.env})
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
            return replace(setting, env={**setting.env, **dockerfile.assignments(step, variables)})
        case "USER":
            return replace(setting, user=dockerfile.expand(step.text, variables).partition(":")[0])
        case "WORKDIR":
            workdir = os.path.join(setting.workdir, dockerfile.expand(step.text.strip("\"'"), variables))
            await _must(space, step, f"mkdir -p {shlex.quote(workdir)}", Setting())
            return replace(setting, workdir=workdir)
        case "COPY" | "ADD":
            await _copy(space, context, step, setting, variables)
        case "RUN":
            await _must(space, step, dockerfile.command(step), replace(setting, env=variables))
    return setting


async def _copy(
    space: Namespace, context: Path, step: Instruction, setting: Setting, variables: Mapping[str, str]
) -> None:
    patterns, target = dockerfile.copied(step)
    target = dockerfile.expand(target, variables)
    path = os.path.join(setting.workdir, target)
    if step.body is not None:
        await put_text(space, step.body, path)
        return
    matches: list[Path] = []
    for pattern in patterns:
        matches += _matching(context, dockerfile.expand(pattern, variables), step)
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
