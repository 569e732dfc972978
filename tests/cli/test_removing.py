"""`wane sessions prune` and `wane sessions delete`."""

from __future__ import annotations

import asyncio
import io
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli import sample
from tests.cli.conftest import Run
from tests.cli.test_main import WITHOUT
from tests.proxy.store.support import add, new_root, note
from wane.cli.main import main
from wane.cli.terminal.text import human_bytes
from wane.journal import Journal, SessionStore
from wane.proxy.store import open_store


def age_file(path: Path, days: float) -> Path:
    then = time.time() - days * 86_400
    os.utime(path, (then, then))
    return path


@pytest.fixture
def old(store: SessionStore, tmp_path: Path) -> Path:
    return age_file(sample.save(store.directory(tmp_path), cwd=tmp_path), 40)


@pytest.fixture
def new(store: SessionStore, tmp_path: Path) -> Path:
    return age_file(sample.save(store.directory(tmp_path / "other"), cwd=tmp_path, session_id="b001"), 3)


def test_old_sessions_are_deleted_and_what_it_frees_is_told(run: Run, old: Path, new: Path) -> None:
    size = old.stat().st_size
    planned = run("sessions", "prune", "--older-than", "30d", "--dry-run")
    assert old.exists()
    assert f"1 session would be deleted, which would free {human_bytes(size)}\n" in planned.out
    assert "5a3e" in planned.out
    done = run("sessions", "prune", "--older-than", "30d")
    assert done.out == planned.out.replace("would be deleted, which would free", "deleted, which freed")
    assert not list(old.parent.glob(f"{old.name}*"))
    assert new.exists()
    assert run("sessions", "prune", "--older-than", "1d", "--dry-run").out.startswith("b001")
    assert run("sessions", "prune", "--older-than", "12w").out == "0 sessions deleted, which freed 0 B\n"


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_an_open_session_is_left_alone(run: Run, old: Path, dry: tuple[str, ...]) -> None:
    with Journal.open(old):
        age_file(old, 40)
        done = run("sessions", "prune", "--older-than", "30d", *dry)
    assert done.code == 0
    assert "is being written by another process" in done.err
    assert done.out.startswith("0 sessions would be deleted" if dry else "0 sessions deleted")
    assert old.exists()


def test_a_dry_run_counts_what_was_put_aside_of_a_session_too(run: Run, old: Path) -> None:
    size = old.stat().st_size
    Path(f"{old}.torn").write_bytes(b"x" * 10_000)
    planned = run("sessions", "prune", "--older-than", "30d", "--dry-run")
    assert f"which would free {human_bytes(size + 10_000)}\n" in planned.out


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_a_session_that_another_process_deletes_meanwhile_does_not_count(
    old: Path, new: Path, monkeypatch: pytest.MonkeyPatch, dry: tuple[str, ...]
) -> None:
    class Deleting(io.StringIO):
        """Deletes the newer session as soon as the older one is told."""

        def write(self, text: str) -> int:
            new.unlink(missing_ok=True)
            return super().write(text)

    out = Deleting()
    monkeypatch.setattr(sys, "stdout", out)
    assert old.exists()
    assert main(["sessions", "prune", "--older-than", "1d", *dry]) == 0
    assert out.getvalue().splitlines()[-1].startswith("1 session would be" if dry else "1 session deleted")


def test_sessions_are_deleted_by_name_all_or_none(run: Run, old: Path, new: Path) -> None:
    done = run("sessions", "delete", "5a3e", "zzz")
    assert done.code == 2
    assert "no session has an id that begins with 'zzz'" in done.err
    assert old.exists()
    done = run("sessions", "delete", "5a3e", "b0")
    assert done.out.startswith("2 sessions deleted, which freed")
    assert not old.exists()
    assert not new.exists()


def test_the_proxys_sessions_too(run: Run, store: SessionStore) -> None:
    async def begin() -> str:
        log = await open_store(str(store.root)).create(new_root(), "openai")
        await add(log, note(1))
        await log.close()
        return log.id

    session_id = asyncio.run(begin())
    (path,) = store.root.rglob("*.jsonl")
    assert run("sessions", "delete", session_id[-8:]).code == 2
    assert run("sessions", "delete", session_id.rpartition("-")[2][:8], "--store", str(store.root)).code == 0
    assert not path.parent.exists()


def test_what_is_no_age_is_told(run: Run) -> None:
    assert "say how old sessions must be" in run("sessions", "prune").err
    for age in ("30", "soon", "1y", "d"):
        done = run("sessions", "prune", "--older-than", age)
        assert done.code == 2
        assert "write a number with a unit, such as 30d, 12h or 2w" in done.err


@pytest.mark.full
@pytest.mark.parametrize(
    "command", [("show", "5a3e"), ("sessions", "prune", "--older-than", "30d")], ids=["show", "prune"]
)
def test_sessions_of_the_agent_need_no_extra(spawn: Run, old: Path, command: tuple[str, ...]) -> None:
    missing = "orjson,uvicorn,starlette,httpcore2,prometheus_client,pydantic_ai,genai_prices"
    done = spawn(missing, *command, code=WITHOUT)
    assert (done.code, done.err) == (0, "")
    assert "5a3e" in done.out
    assert old.exists() is (command[0] == "show")


def test_the_list_is_still_what_the_command_alone_gives(run: Run, old: Path) -> None:
    assert "5a3e" in run("sessions", "--all").out
    assert "unknown option --all" in run("sessions", "prune", "--all").err


@pytest.mark.skipif(sys.platform != "linux", reason="the lines have Linux's paths")
def test_the_lines_of_the_docs_that_delete_all_leave_the_settings_alone(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "stored.md").read_text(encoding="utf-8")
    (lines,) = (block for block in re.findall(r"```\n(.*?)```", page, re.DOTALL) if "rm -rf" in block)
    state, settings = tmp_path / ".local" / "state" / "wane", tmp_path / ".config" / "wane"
    journal = sample.save(SessionStore(state / "sessions").directory(tmp_path), cwd=tmp_path)
    named = (state / "sessions" / "prompts", state / "sessions" / "deleted.jsonl", state / "log" / "run.log")
    cached = (tmp_path / ".cache" / "wane" / name for name in ("report.sqlite", "prices.json"))
    configured = (settings / name for name in ("approvals.json", "approvals.json.lock", "tuned.json", "config.toml"))
    for path in (*named, *cached, *configured):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    search = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("WANE_", "XDG_"))}
    environ |= {"HOME": str(tmp_path), "PATH": search, "BROWSER": "true", "TMPDIR": str(tmp_path)}
    for command in (["view", str(journal)], ["report", str(journal)]):
        (settings / "tuned.json").unlink(missing_ok=True)
        written = subprocess.run(["wane", *command], env=environ, capture_output=True, text=True)
        assert written.returncode == 0, written.stderr
    pages = tmp_path / ".cache" / "wane" / "pages"
    assert {page.name for page in tmp_path.rglob("*.html")} == {page.name for page in pages.iterdir()}
    assert len(list(pages.iterdir())) == 2
    assert pages.stat().st_mode & 0o777 == 0o700
    (settings / "tuned.json").write_text("")
    shell = subprocess.run(["bash", "-e", "-c", lines], env=environ, capture_output=True, text=True)
    assert "1 session deleted" in shell.stdout, shell.stderr
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [settings / "config.toml"]
