"""What a line of `pip install` in a guide brings, out of the packages that are installed here."""

from __future__ import annotations

import shlex
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

SITE = Path(sysconfig.get_path("purelib"))


def requirements(line: str) -> list[Requirement]:
    """Return what a line of `pip install` asks for; the clone, `.`, is Wane."""
    pip, install, *words = shlex.split(line, comments=True)
    assert (pip, install) == ("pip", "install"), line
    return [Requirement(f"wane{word[1:]}" if word.startswith(".") else word) for word in words]


def bring(wanted: Iterable[Requirement]) -> dict[str, Distribution]:
    """Return all packages that an installation brings, by name, in whatever version is installed here.

    Raises:
        LookupError: if one of them is not.
    """
    brought: dict[str, Distribution] = {}
    waiting, known = [*wanted], set[tuple[str, str]]()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        try:
            package = distribution(name)
        except PackageNotFoundError as error:
            raise LookupError(f"{requirement} is not installed here") from error
        brought[name] = package
        for extra in ("", *requirement.extras):
            if (name, extra) not in known:
                known.add((name, extra))
                waiting += needed_by(package, extra)
    return brought


def needed_by(package: Distribution, extra: str) -> Iterator[Requirement]:
    """Yield what a package requires with an extra, or, where that is empty, without one."""
    for text in package.requires or ():
        requirement = Requirement(text)
        if requirement.marker is None:
            if not extra:
                yield requirement
        elif requirement.marker.evaluate({"extra": extra}):
            yield requirement


def link(brought: Mapping[str, Distribution], folder: Path) -> None:
    """Fill a folder with links to these packages, as if nothing else were installed."""
    others = [package for package in distributions() if canonicalize_name(package.name) not in brought]
    files = {SITE / file for package in others for file in package.files or () if ".." not in file.parts}
    left_out = files | {parent for file in files for parent in file.parents}
    _link(SITE, folder, left_out)


def _link(source: Path, target: Path, left_out: set[Path]) -> None:
    for path in source.iterdir():
        if path not in left_out:
            # What is compiled beside modules that are left out would stand for a package that is not there.
            if path.name != "__pycache__":
                target.mkdir(parents=True, exist_ok=True)
                (target / path.name).symlink_to(path)
        elif path.is_dir():
            _link(path, target / path.name, left_out)
