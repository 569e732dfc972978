"""How to add an extra: by the program that installed Wane, and from where it came, as a registry may not have it."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

from wane.core.errors import MissingExtraError

_CACHED: Final = re.compile(r"(archive|environments)-v\d+")
"""Folders of uv's cache in which `uvx` runs programs."""


def origin_of_wane() -> str | None:
    """Return what pip, uv or pipx noted of where Wane came from, as JSON; None for a registry."""
    try:
        return distribution("wane").read_text("direct_url.json")
    except PackageNotFoundError:
        return None


def explain_missing(error: MissingExtraError) -> str:
    """Return an error, with the command that adds the extra to Wane as it was installed."""
    line = install_line(error.extra, Path(sys.prefix), origin_of_wane())
    return f'{error.part} needs the "{error.extra}" extra. Install it with: {line}'


def install_line(extras: str, prefix: Path, origin: str | None) -> str:
    """Return the command that adds extras to Wane.

    Args:
        extras: the extras, separated by commas.
        prefix: the environment that Wane runs in.
        origin: where Wane came from, as `origin_of_wane` returns it.
    """
    data: dict[str, Any] = json.loads(origin) if origin else {}
    if (receipt := prefix / "uv-receipt.toml").is_file():
        requirements = tomllib.loads(receipt.read_text(encoding="utf-8")).get("tool", {}).get("requirements", [])
        known = [extra for entry in requirements if entry.get("name") == "wane" for extra in entry.get("extras", ())]
        return f"uv tool install --force {_requirement([*known, extras], data)}"
    if (receipt := prefix / "pipx_metadata.json").is_file():
        main = json.loads(receipt.read_text(encoding="utf-8")).get("main_package", {})
        known = re.findall(r"\[([^\]]+)\]", str(main.get("package_or_url")))
        return f"pipx install --force {_requirement([*known, extras], data)}"
    if any(map(_CACHED.fullmatch, prefix.parts)):
        return f"uvx --from {_requirement([extras], data)} wane"
    editable = "-e " if data.get("dir_info", {}).get("editable") else ""
    return f"pip install {editable}{_requirement([extras], data)}"


def _requirement(extras: Iterable[str], origin: dict[str, Any]) -> str:
    """Return what to install: Wane with extras, in quotes for a shell."""
    brackets = f"[{','.join(dict.fromkeys(extras))}]"
    url = str(origin.get("url") or "")
    if "dir_info" in origin:
        return f'"{url2pathname(urlsplit(url).path)}{brackets}"'
    if not url:
        return f'"wane{brackets}"'
    version_control = f"{origin['vcs_info']['vcs']}+" if "vcs_info" in origin else ""
    return f'"wane{brackets} @ {version_control}{url}"'
