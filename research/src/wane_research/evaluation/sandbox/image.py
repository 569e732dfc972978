"""Builds the image of a Dockerfile as layers on base root file systems. They are cached."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Final

from filelock import AsyncFileLock

from wane_research.evaluation.sandbox.dockerfile import (
    Dockerfile,
    Instruction,
    assignments,
    command,
    expand,
    flags_of,
    parse,
    parse_copy,
    shell_of,
)
from wane_research.evaluation.sandbox.dockerignore import show_context
from wane_research.evaluation.sandbox.namespace import (
    SEARCH_PATH,
    FileSource,
    Match,
    Namespace,
    SandboxError,
    unpack,
)

BASES: Final = Path("/var/tmp/wane-bases")  # noqa: S108 - large, and made by a script of its own
"""The folder of base root file systems, unless the environment's argument `bases` names another."""

VERSION: Final = 3  # version of the way of building; layers of other versions are not used
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


def find_images(described: Dockerfile, bases: Path) -> dict[str, Path]:
    """Return the folders with the root file systems of the images that a Dockerfile needs, by their names.

    Raises:
        SandboxError: if there is none for an image.
    """
    based, copied = described.needed_images()
    folders = {image: bases / image for image in (*based, *copied)}
    for image, folder in folders.items():
        # One that files are only copied from needs nothing but these.
        if not (folder / "bin" if image in based else folder).exists():
            available = ", ".join(sorted(path.name for path in bases.glob("*:*"))) or "none"
            raise SandboxError(
                f"no root file system for the image {image} in {bases} (available: {available}); "
                "research/docs/evaluation.md says how to make one"
            )
    return folders


async def build(context: Path, bases: Path, cache: Path, *, force: bool = False) -> Layer:
    """Return the image of the Dockerfile in a folder; build it if it is not in the cache.

    `force`: build it even if it is in the cache.

    Raises:
        DockerfileError: for a Dockerfile that is not supported.
        SandboxError: if there is no base, or a step fails.
    """
    described = parse((context / "Dockerfile").read_text(encoding="utf-8"))
    images = find_images(described, bases)
    home = cache / _key(context, images)
    cache.mkdir(parents=True, exist_ok=True)
    # Another process may be building it, for minutes.
    async with AsyncFileLock(f"{home}.lock"):
        if force or not (home / _META).exists():
            await asyncio.to_thread(shutil.rmtree, home, ignore_errors=True)
            with tempfile.TemporaryDirectory() as folder:
                shown = await asyncio.to_thread(show_context, context, Path(folder))
                await _Build(shown, described, images, home).run()
        data = json.loads((home / _META).read_text(encoding="utf-8"))
    return Layer(tuple(Path(folder) for folder in data["folders"]), Setting(**data["setting"]))


class _Build:
    """The building of one image, stage by stage."""

    def __init__(self, context: Path, described: Dockerfile, images: Mapping[str, Path], home: Path) -> None:
        self._context = context
        self.described = described
        self._images = images
        self._home = home
        self._built: dict[int, Layer] = {}

    async def run(self) -> None:
        for number in self.described.needed_stages():
            self._built[number] = await self._build_stage(number)
        image = self._built[max(self._built)]
        for layer in self._built.values():
            if layer.folders[0] not in image.folders:
                await asyncio.to_thread(shutil.rmtree, layer.folders[0].parent, ignore_errors=True)
        new = self._home / f"{_META}.new"
        folders = [str(folder) for folder in image.folders]
        new.write_text(json.dumps({"folders": folders, "setting": asdict(image.setting)}), encoding="utf-8")
        new.replace(self._home / _META)

    async def _build_stage(self, number: int) -> Layer:
        base = self.described.find_base(number)
        below = self._built[base] if base is not None else self._image(self.described.stages[number].base)
        home = self._home / f"stage{number}"
        space = Namespace()
        await space.up(below.folders, home, network="host")
        try:
            setting = await _Stage(self, number, space, below.setting).run()
        finally:
            await space.down()
        for folder in ("work", "root"):
            shutil.rmtree(home / folder, ignore_errors=True)
        return Layer((home / "upper", *below.folders), setting)

    def _image(self, name: str) -> Layer:
        return Layer((self._images[name],), Setting())

    def layers_to_copy(self, name: str | None, number: int) -> tuple[Path, ...]:
        """Return the folders that a stage copies from: those of a stage or image, or the context if it names none."""
        if name is None:
            return (self._context,)
        source = self.described.find_source(name, number)
        return (self._built[source] if source is not None else self._image(name)).folders


class _Stage:
    """The building of one stage, step by step."""

    def __init__(self, whole: _Build, number: int, space: Namespace, setting: Setting) -> None:
        self._whole = whole
        self._number = number
        self._space = space
        self._setting = setting
        self._shell = ["sh", "-c"]
        # Variables of `ARG` exist only during the build.
        self._arguments = {"DEBIAN_FRONTEND": "noninteractive"}

    async def run(self) -> Setting:
        described = self._whole.described
        for step in described.stages[self._number].steps:
            if step.word == "ARG":
                known = {**described.arguments, **self._arguments, **self._setting.env}
                self._arguments |= assignments(step, known)
            elif step.word == "SHELL":
                self._shell = shell_of(step)
            else:
                self._setting = await self._take(step, {**self._arguments, **self._setting.env})
        return self._setting

    async def _take(self, step: Instruction, variables: Mapping[str, str]) -> Setting:
        setting = self._setting
        match step.word:
            case "ENV":
                return replace(setting, env={**setting.env, **assignments(step, variables)})
            case "USER":
                return replace(setting, user=expand(step.text, variables).partition(":")[0])
            case "WORKDIR":
                workdir = os.path.join(setting.workdir, expand(step.text.strip("\"'"), variables))
                await self._must(step, ["sh", "-c", f"mkdir -p {shlex.quote(workdir)}"], Setting())
                return replace(setting, workdir=workdir)
            case "COPY" | "ADD":
                await self._copy(step, variables)
            case "RUN":
                script = command(step)
                shell = ["bash", "-c"] if script.startswith("#!") else self._shell
                await self._must(step, [*shell, script], replace(setting, env=variables))
        return setting

    async def _copy(self, step: Instruction, variables: Mapping[str, str]) -> None:
        patterns, target = parse_copy(step)
        flags = {name: expand(value, variables) for name, value in flags_of(step).items()}
        target = expand(target, variables)
        path = os.path.join(self._setting.workdir, target)
        owner = await self._read_owner(step, flags)
        with tempfile.TemporaryDirectory() as folder:
            layers = self._whole.layers_to_copy(flags.get("from"), self._number)
            files = FileSource(layers, Path(folder))
            matches = [(files, await self._match(step, files, [expand(word, variables) for word in patterns]))]
            if step.documents:
                matches.append(await self._write_documents(step, variables, Path(folder) / "documents"))
            first, *more = [match for _, own in matches for match in own]
            within = (
                bool(more)
                or first.kind == "folder"
                or (step.word == "ADD" and first.kind == "archive")
                or os.path.basename(target) in ("", ".", "..")
                or not (await self._space.run(["test", "-d", path])).code
            )
            name = "" if within else os.path.basename(path)
            archive = Path(folder) / "archive"
            # What an archive holds keeps its owners, as files of the context cannot.
            inner = None
            if step.word == "ADD":
                inner = owner if "chown" in flags else ""
            for source, own in matches:
                paths, mode = [match.path for match in own], flags.get("chmod", "")
                await source.pack(archive, paths, owner, mode, name, inner)
                await unpack(self._space, archive, path if within else os.path.dirname(path))

    async def _write_documents(
        self, step: Instruction, variables: Mapping[str, str], home: Path
    ) -> tuple[FileSource, list[Match]]:
        """Write the here-documents of a step as files by their names."""
        written = home / "written"
        written.mkdir(parents=True)
        for document in step.documents:
            text = document.text if document.is_quoted else expand(document.text, variables)
            (written / os.path.basename(document.name)).write_text(text, encoding="utf-8")
        files = FileSource((written,), home)
        return files, [match for own in await files.find(["*"]) for match in own]

    async def _match(self, step: Instruction, files: FileSource, patterns: list[str]) -> list[Match]:
        matches: list[Match] = []
        for pattern, own in zip(patterns, await files.find(patterns), strict=True):
            if not own:
                raise SandboxError(step.describe(f"there is no {pattern} to copy"))
            matches += own
        if step.word == "ADD" and any(match.kind == "zstandard" for match in matches):
            raise step.error("ADD of a file that Zstandard compressed is not supported")
        return matches

    async def _read_owner(self, step: Instruction, flags: Mapping[str, str]) -> str:
        """Return the numbers of the user and the group that copied files get; "" to keep those that they have."""
        if "chown" not in flags:
            return "" if "from" in flags else "0:0"
        user, _, group = flags["chown"].partition(":")
        user, own_group = await self._look_up(step, "/etc/passwd", user)
        return f"{user}:{(await self._look_up(step, '/etc/group', group))[0] if group else own_group}"

    async def _look_up(self, step: Instruction, file: str, name: str) -> tuple[str, str]:
        if name.isdigit():
            return name, name
        lines = (await self._space.run(["cat", file])).output.splitlines()
        entry = next((fields for line in lines if (fields := line.split(":"))[0] == name and len(fields) > 3), None)
        if entry is None:
            raise SandboxError(step.describe(f"there is no {name} in {file}"))
        return entry[2], entry[3]

    async def _must(self, step: Instruction, argv: list[str], setting: Setting) -> None:
        env, user = setting.env, setting.user
        try:
            done = await self._space.run(argv, cwd=setting.workdir, env=env, user=user, timeout=_STEP_TIMEOUT)
        except TimeoutError:
            raise SandboxError(step.describe(f"took more than {_STEP_TIMEOUT:g} seconds")) from None
        if done.code:
            raise SandboxError(step.describe(f"ended with {done.code}: {argv[-1][:200]}\n{done.output[-_TOLD:]}"))


def _key(context: Path, images: Mapping[str, Path]) -> str:
    """A name for the image: a digest of everything it is made of."""
    digest = sha256(str(VERSION).encode())
    for folder in images.values():
        digest.update(f"\0{folder.resolve()}\0{folder.stat().st_mtime_ns}".encode())
    for path in sorted(context.rglob("*")):
        name = path.relative_to(context).as_posix()
        if path.is_symlink():
            digest.update(f"\0{name}\0{path.readlink()}".encode())
        elif path.is_file():
            digest.update(f"\0{name}\0{path.stat().st_mode & 0o777}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:24]
