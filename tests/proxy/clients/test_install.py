"""What is installed for tests is installed once, and what failed is tried again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.proxy.clients.install import UnavailableError, prepare_folder


@pytest.fixture(autouse=True)
def cache_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: tmp_path / name)


def test_several_at_once_install_one_time() -> None:
    folders: list[Path] = []
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: prepare_folder("@scope/tool@1.0", folders.append), range(4)))
    assert len(folders) == 1
    assert set(found) == set(folders)


def test_an_installation_that_failed_is_tried_again() -> None:
    folders: list[Path] = []

    def fail(folder: Path) -> None:
        raise UnavailableError(f"nothing comes to {folder}")

    with pytest.raises(UnavailableError, match="nothing comes"):
        prepare_folder("tool@1.0", fail)
    assert prepare_folder("tool@1.0", folders.append) == folders[0]


def test_two_versions_have_a_folder_each() -> None:
    assert prepare_folder("tool@1.0", lambda _: None) != prepare_folder("tool@1.1", lambda _: None)
