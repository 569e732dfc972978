"""axe-core, the usual checker of accessibility, finds nothing on any page: on a phone and a screen, light and dark."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run, plain_surroundings, run
from tests.lab.browser import Browser, needs_chromium
from tests.proxy.status.support import ToldIndex, serving, session
from wane.core import Room
from wane.proxy.server.status import SessionPages

__all__ = ["plain_surroundings", "run"]  # fixtures

pytestmark = [pytest.mark.full, needs_chromium]
pytest.importorskip("genai_prices", reason="needs the extra lab")

AXE = "axe-core@4.14.1"
SIZES = ((390, False), (390, True), (1280, False), (1280, True))
SESSIONS = Path(__file__).parents[3] / "shared" / "sessions"
SESSION = SESSIONS / "claude-code" / "packmind-8f_2ac5b863c7_0.jsonl"
needs_sessions = pytest.mark.skipif(not SESSION.exists(), reason=f"there are no recorded sessions at {SESSIONS}")

PAGES = {
    "view": ("view", SESSION, "--output"),
    "replay": ("replay", SESSION, "--workers", "1", "--report"),
    "sweep": ("sweep", SESSION, "--budgets", "40k,80k", "--workers", "1", "--report"),
    "tune": ("tune", SESSION, "--budgets", "40k,80k", "--workers", "1", "--report"),
    "doctor": ("doctor", SESSION, "--report"),
    "report": ("report", SESSION, "--days", "4000", "--workers", "1", "--output"),
}


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The checker's script, of the npm package."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    folder = tmp_path_factory.mktemp("axe")
    done = subprocess.run([npm, "pack", AXE], cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode:
        pytest.skip(f"npm cannot fetch {AXE}: {done.stderr[-200:]}")
    with tarfile.open(next(folder.glob("*.tgz"))) as archive:
        return archive.extractfile("package/axe.min.js").read().decode()  # type: ignore[union-attr]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as started:
        yield started


def violations(browser: Browser, axe: str) -> list[Any]:
    """Return what is wrong with the page: each rule with the first elements that break it."""
    browser.run(f"{axe};0")
    found = "r.violations.map(v => [v.id, v.nodes.slice(0, 3).map(n => n.html.slice(0, 120))])"
    return list(browser.run(f"axe.run(document, {{resultTypes: ['violations']}}).then(r => {found})"))


def check(browser: Browser, axe: str, width: int, dark: bool) -> None:
    browser.run("for (const it of document.querySelectorAll('details')) it.open = true")
    for selector in (".how", ".seg button:last-child"):
        browser.run(f"for (const it of document.querySelectorAll({json.dumps(selector)})) it.click()")
    browser.settle()
    assert browser.run("document.documentElement.scrollWidth") <= width, (width, dark)
    assert violations(browser, axe) == [], (width, dark)


@needs_sessions
@pytest.mark.parametrize("name", PAGES)
def test_a_report_has_no_violation(run: Run, tmp_path: Path, browser: Browser, axe: str, name: str) -> None:
    page = tmp_path / f"{name}.html"
    done = run(*PAGES[name], page)
    assert done.code == 0, done.err
    for width, dark in SIZES:
        browser.errors.clear()
        browser.look(width, 900, dark=dark)
        browser.open(page)
        check(browser, axe, width, dark)
        assert not browser.errors


@pytest.mark.parametrize("state", ["sessions", "empty", "under run", "gone"])
def test_the_live_page_has_no_violation(browser: Browser, axe: str, state: str) -> None:
    tight = Room(80_000, system=60_000)
    told = [session(6), session(7, parent="00000006", view=100_000), session(4, seconds=40_000, room=tight)]
    index = ToldIndex(told if state in ("sessions", "gone") else [])
    pages = SessionPages("the-key", lambda header, records: "")
    for width, dark in SIZES:
        browser.look(width, 900, dark=dark)
        with serving(index, pages=pages, agent="claude" if state == "under run" else "") as url:
            browser.ask("Page.navigate", url="about:blank")
            browser.ask("Page.navigate", url=f"{url}#key=the-key")
            wait_for(browser, "document.getElementById('pulse')?.textContent === 'live'")
            if state != "gone":
                check(browser, axe, width, dark)
        if state == "gone":
            wait_for(browser, "!document.getElementById('lost').hidden")
            check(browser, axe, width, dark)


def wait_for(browser: Browser, condition: str) -> None:
    end = time.monotonic() + 60
    while not browser.run(condition):
        assert time.monotonic() < end, condition
        time.sleep(0.05)
