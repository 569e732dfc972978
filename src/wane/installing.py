"""The commands that add to Wane, or update it: by the program that installed it, and from where it came.

A registry may not have Wane, and a tool's environment is not the one that pip installs into.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit
from urllib.request import url2pathname

_CACHED: Final = re.compile(r"(archive|environments)-v\d+")
"""Folders of uv's cache in which `uvx` runs programs."""

Installer: TypeAlias = Literal["pip", "uv", "pipx", "uvx"]


@dataclass(frozen=True, slots=True)
class Installation:
    """How Wane was installed.

    Attributes:
        installer: the program that did it.
        extras: the extras that were asked for, as far as it noted them.
        beside: further requirements that were installed into the same environment.
        origin: what was noted of where Wane came from, in the form of `direct_url.json`; empty for a registry.
        pip: the command with which pip, or uv in its place, installs into this environment.
    """

    installer: Installer = "pip"
    extras: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    origin: Mapping[str, Any] = field(default_factory=dict)
    pip: str = "pip install"

    @classmethod
    def of(cls, prefix: Path, origin: str | None, pip: str = "pip install") -> Installation:
        """Return how Wane was installed into an environment.

        Args:
            prefix: the environment's folder.
            origin: its `direct_url.json`; None for a registry.
            pip: the command with which pip installs into it.
        """
        data = json.loads(origin) if origin else {}
        if (receipt := prefix / "uv-receipt.toml").is_file():
            entries = tomllib.loads(receipt.read_text(encoding="utf-8")).get("tool", {}).get("requirements", [])
            extras = [extra for entry in entries if entry.get("name") == "wane" for extra in entry.get("extras", ())]
            beside = list[str]()
            for entry in entries:
                if entry.get("name") != "wane":
                    brackets = f"[{','.join(entry['extras'])}]" if entry.get("extras") else ""
                    beside.append(f"{entry.get('name')}{brackets}{entry.get('specifier', '')}")
            return cls("uv", tuple(extras), tuple(beside), data)
        if (receipt := prefix / "pipx_metadata.json").is_file():
            main = json.loads(receipt.read_text(encoding="utf-8")).get("main_package", {})
            named = re.search(r"\[([^\]]+)\]", str(main.get("package_or_url")))
            return cls("pipx", tuple(named[1].split(",")) if named else (), (), data)
        if any(map(_CACHED.fullmatch, prefix.parts)):
            return cls("uvx", origin=data)
        return cls(origin=data, pip=pip)

    def extras_line(self, extras: str) -> str:
        """Return the command that adds extras, separated by commas, to Wane."""
        wane = self._requirement([*self.extras, *extras.split(",")])
        match self.installer:
            case "uv":
                return " ".join(["uv tool install --force", wane, *(f'--with "{other}"' for other in self.beside)])
            case "pipx":
                return f"pipx install --force {wane}"
            case "uvx":
                return f"uvx --from {wane} wane"
        editable = "-e " if self.origin.get("dir_info", {}).get("editable") else ""
        return f"{self.pip} {editable}{wane}"

    def package_line(self, requirement: str) -> str:
        """Return the command that adds another package beside Wane."""
        name, bracket, extras = requirement.partition("[")
        if name == "wane-research" and self.origin:  # it comes from the same folder or repository
            if "dir_info" in self.origin:
                requirement = f"{self._folder}/research{bracket}{extras}"
            elif "vcs_info" in self.origin:
                requirement += f" @ {self._place}#subdirectory=research"
        match self.installer:
            case "uv":
                others = " ".join(f'--with "{other}"' for other in (*self.beside, requirement))
                return f"uv tool install --force {self._requirement(self.extras)} {others}"
            case "pipx":
                return f'pipx inject wane "{requirement}"'
            case "uvx":
                return f'uvx --from {self._requirement(self.extras)} --with "{requirement}" wane'
        return f'{self.pip} "{requirement}"'

    def update_line(self) -> str:
        """Return the command that updates Wane."""
        if self.installer == "uvx":
            return "uvx wane@latest"
        if self.installer in ("uv", "pipx"):
            return "uv tool upgrade wane" if self.installer == "uv" else "pipx upgrade wane"
        if "dir_info" not in self.origin:
            return f"{self.pip} --upgrade {self._requirement(self.extras) if self.origin else 'wane'}"
        pull = f'git -C "{self._folder}" pull'
        return pull if self.origin["dir_info"].get("editable") else f'{pull} && {self.pip} "{self._folder}"'

    @property
    def _place(self) -> str:
        """Where Wane came from, as a requirement names it: `git+https://…`; empty for a registry."""
        url = str(self.origin.get("url") or "")
        return f"{self.origin['vcs_info']['vcs']}+{url}" if "vcs_info" in self.origin else url

    @property
    def _folder(self) -> str:
        """The folder that Wane came from."""
        return url2pathname(urlsplit(self._place).path)

    def _requirement(self, extras: Iterable[str]) -> str:
        """Return what to install: Wane with extras, in quotes for a shell."""
        names = ",".join(dict.fromkeys(extras))
        wane = f"wane[{names}]" if names else "wane"
        if "dir_info" in self.origin:
            return f'"{self._folder}{wane.removeprefix("wane")}"'
        return f'"{wane} @ {self._place}"' if self._place else f'"{wane}"'


@cache
def installation() -> Installation:
    """Return how the Wane that runs was installed."""
    try:
        wane = distribution("wane")
    except PackageNotFoundError:
        return Installation.of(Path(sys.prefix), None)
    by_uv = (wane.read_text("INSTALLER") or "").strip() == "uv"
    pip = pip_command(sys.executable, Path(sys.prefix), os.environ, by_uv=by_uv)
    return Installation.of(Path(sys.prefix), wane.read_text("direct_url.json"), pip)


def pip_command(python: str, prefix: Path, environment: Mapping[str, str], *, by_uv: bool) -> str:
    """Return the command that installs into an environment, from the shell that started Wane.

    Args:
        python: the environment's interpreter.
        prefix: the environment's folder.
        environment: the variables of the shell, which say which environment is activated.
        by_uv: whether uv installed Wane; its environments have no pip of their own.
    """
    if by_uv:
        active = environment.get("VIRTUAL_ENV")
        return "uv pip install" if active and Path(active) == prefix else f'uv pip install --python "{python}"'
    first = shutil.which("pip", path=environment.get("PATH"))
    if first is not None and Path(first).parent == Path(python).parent:
        return "pip install"
    return f'"{python}" -m pip install' if " " in python else f"{python} -m pip install"
