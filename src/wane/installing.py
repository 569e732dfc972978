"""The commands that add to Wane, or update it: by the program that installed it, and from where it came.

A registry may not have Wane, and a tool's environment is not the one that pip installs into.
"""

from __future__ import annotations

import json
import re
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

from wane.core.errors import MissingExtraError

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
    """

    installer: Installer = "pip"
    extras: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    origin: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, prefix: Path, origin: str | None) -> Installation:
        """Return how Wane was installed into an environment, given its `direct_url.json`, or None for a registry."""
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
        return cls(origin=data)

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
        return f"pip install {editable}{wane}"

    def package_line(self, requirement: str) -> str:
        """Return the command that adds another package beside Wane."""
        match self.installer:
            case "uv":
                others = " ".join(f'--with "{other}"' for other in (*self.beside, requirement))
                return f"uv tool install --force {self._requirement(self.extras)} {others}"
            case "pipx":
                return f'pipx inject wane "{requirement}"'
            case "uvx":
                return f'uvx --from {self._requirement(self.extras)} --with "{requirement}" wane'
        return f'pip install "{requirement}"'

    def update_line(self) -> str:
        """Return the command that updates Wane."""
        if self.installer == "uvx":
            return "uvx wane@latest"
        return {"uv": "uv tool upgrade wane", "pipx": "pipx upgrade wane"}.get(
            self.installer, "pip install --upgrade wane"
        )

    def _requirement(self, extras: Iterable[str]) -> str:
        """Return what to install: Wane with extras, in quotes for a shell."""
        names = ",".join(dict.fromkeys(extras))
        wane = f"wane[{names}]" if names else "wane"
        url = str(self.origin.get("url") or "")
        if "dir_info" in self.origin:
            return f'"{url2pathname(urlsplit(url).path)}{wane.removeprefix("wane")}"'
        if not url:
            return f'"{wane}"'
        version_control = f"{self.origin['vcs_info']['vcs']}+" if "vcs_info" in self.origin else ""
        return f'"{wane} @ {version_control}{url}"'


@cache
def installation() -> Installation:
    """Return how the Wane that runs was installed."""
    try:
        origin = distribution("wane").read_text("direct_url.json")
    except PackageNotFoundError:
        origin = None
    return Installation.of(Path(sys.prefix), origin)


def explain_extra(error: MissingExtraError) -> str:
    """Return the error of a missing extra, with the command that adds it to Wane as it was installed."""
    line = installation().extras_line(error.extra)
    return f'{error.part} needs the "{error.extra}" extra. Install it with: {line}'
