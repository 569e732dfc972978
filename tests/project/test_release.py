"""What `make release` holds a release to. Building and installing one needs pip and a network: `make release` does."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path

import pytest
from scripts import release

import wane

ROOT = Path(__file__).parents[2]
VERSION = wane.__version__


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "src" / "wane").mkdir(parents=True)
    (tmp_path / "research").mkdir()
    for name in ("pyproject.toml", "research/pyproject.toml", "CHANGELOG.md", "src/wane/__init__.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_project_package_and_changelog_tell_one_version(project: Path) -> None:
    assert release.version(project) == VERSION


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("src/wane/__init__.py", f'__version__ = "{VERSION}"', '__version__ = "9.9"', "wane.__version__ is 9.9"),
        ("research/pyproject.toml", f'version = "{VERSION}"', 'version = "9.9"', "research/pyproject.toml 9.9"),
        ("research/pyproject.toml", f"]=={VERSION}", "]>=0", "does not ask for wane=="),
        ("CHANGELOG.md", f"## [{VERSION}] - ", "## [9.9] - ", "CHANGELOG.md has no section"),
        ("CHANGELOG.md", f"## [{VERSION}] - ", f"## [{VERSION}] - soon ", "CHANGELOG.md has no section"),
    ],
)
def test_another_version_anywhere_is_told(project: Path, name: str, old: str, new: str, message: str) -> None:
    text = (project / name).read_text(encoding="utf-8")
    assert old in text
    (project / name).write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(release.ReleaseError, match=message):
        release.version(project)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"wane/a.py": b"", "wane/py.typed": b"", "wane-1.dist-info/METADATA": b""}, None),
        ({"wane/a.py": b""}, "has no wane/py.typed"),
        ({"wane/py.typed": b"", "tests/a.py": b""}, "has files outside the package: tests/a.py"),
        ({"wane/py.typed": b"", "wane/a.bin": os.urandom(release.MAX_WHEEL)}, "bytes, more than"),
    ],
    ids=["good", "no types", "tests", "large"],
)
def test_what_a_wheel_may_hold(tmp_path: Path, files: dict[str, bytes], message: str | None) -> None:
    wheel = tmp_path / "wane-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    if message is None:
        release.check_wheel(wheel, "wane")
        return
    with pytest.raises(release.ReleaseError, match=message):
        release.check_wheel(wheel, "wane")
