"""`wane sessions` and `wane show`."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli import sample
from tests.cli.conftest import Run
from tests.cli.snapshots import matches_snapshot
from wane.cli.sessions.listing import SHOWN
from wane.core import Policy
from wane.journal import ConfigRecord, Journal, MessageRecord, PassRecord, SessionStore, UsageRecord, read

BUDGET = 3_200


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "project"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


@pytest.fixture
def session_path(store: SessionStore, here: Path) -> Path:
    return sample.save(store.directory(here), cwd=here, budget=BUDGET)


class TestList:
    def test_none(self, run: Run, here: Path) -> None:
        assert run("sessions").out.startswith("Wane's own agent has no session in ")
        assert run("sessions", "--all").out == "There are no sessions.\n"
        assert run("sessions", "--json").out == "[]\n"

    def test_those_of_this_directory_or_all(
        self, run: Run, store: SessionStore, session_path: Path, tmp_path: Path, here: Path
    ) -> None:
        sample.save(store.directory(tmp_path), cwd=tmp_path, session_id="b001")
        own = run("sessions").out
        assert "5a3e" in own
        assert "The date parser rejects times" in own
        assert "b001" not in own
        every = run("sessions", "--all").out.splitlines()
        assert every[0] == "Wane: 2 sessions"
        for session_id, directory in (("5a3e", here), ("b001", tmp_path)):
            (line,) = [line for line in every if line.startswith(f"{session_id}  20")]
            assert line.endswith(f"  {directory}")
            assert every[every.index(line) + 1].startswith("  The date parser rejects times")
        (info,) = json.loads(run("sessions", "--json").out)
        assert (info["id"], info["path"], info["cwd"]) == ("5a3e", str(session_path), str(here))
        assert (info["messages"], info["problem"]) == (len(sample.messages()), None)

    def test_a_damaged_one_is_listed_with_what_is_wrong(self, run: Run, session_path: Path) -> None:
        lines = session_path.read_bytes().splitlines(keepends=True)
        session_path.write_bytes(b"".join([lines[0], b"damage\n", *lines[2:]]))
        done = run("sessions")
        assert done.code == 0
        assert "line 2 is damaged" in " ".join(done.out.split())

    def test_a_place_that_cannot_be_listed(self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "file").touch()
        monkeypatch.setenv("WANE_SESSION_DIR", str(tmp_path / "file"))
        done = run("sessions", "--all")
        assert (done.code, done.out) == (1, "")
        assert "cannot list the sessions in" in done.err


class TestOtherAgents:
    @pytest.fixture
    def rollout(self, tmp_path: Path) -> Path:
        path = tmp_path / "codex_home" / "sessions" / "2026" / "01" / "02" / "rollout-it's.jsonl"
        path.parent.mkdir(parents=True)
        meta = {"type": "session_meta", "payload": {"id": "s", "cwd": "/elsewhere"}}
        turn = {"type": "event_msg", "payload": {"type": "user_message", "message": "fix the \x1b[31mparser"}}
        path.write_text(f"{json.dumps(meta)}\n{json.dumps(turn)}\n", encoding="utf-8")
        return path

    def test_they_are_listed_with_all_and_not_without(self, run: Run, session_path: Path, rollout: Path) -> None:
        assert "parser" not in run("sessions").out.replace("date parser", "")
        out = run("sessions", "--all").out
        assert "5a3e" in out
        assert "Codex: 1 session\n" in out
        assert "  fix the \\x1b[31mparser\n" in out
        assert "  /elsewhere\n" in out
        assert str(rollout) not in out  # the id is enough
        own, other = json.loads(run("sessions", "--all", "--json").out)
        assert own.keys() == other.keys()
        assert (own["agent"], other["agent"]) == ("wane", "codex")
        assert (other["path"], other["cwd"], other["bytes"]) == (str(rollout), "/elsewhere", rollout.stat().st_size)

    def test_all_have_their_calls_their_cost_and_a_bar_of_their_size(
        self, run: Run, rollout: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
        usage = {"input_tokens": 1_000_000, "output_tokens": 40}
        answer = {"id": "m1", "role": "assistant", "model": "claude-sonnet-4-5", "usage": usage}
        said = {"type": "user", "uuid": "a", "message": {"role": "user", "content": "Do it. " * 400}}
        reply = {"type": "assistant", "uuid": "b", "parentUuid": "a", "timestamp": "2026-01-02T03:04:05Z"}
        reply["message"] = {**answer, "content": [{"type": "text", "text": "Done."}]}
        path = tmp_path / "claude" / "projects" / "p" / "5a3eb0c1.jsonl"
        path.parent.mkdir(parents=True)
        path.write_text("".join(f"{json.dumps({'sessionId': 's', **line})}\n" for line in (said, reply)))
        out = run("sessions", "--all").out
        (large,) = [line for line in out.splitlines() if line.startswith("5a3eb0c1 ")]
        assert re.search(r" [█#]{8} .* (\$3\.00|\$6\.00)  +1 call$", large), large
        (small,) = [line for line in out.splitlines() if "/elsewhere" in line]
        assert re.search(r" [█#] +\d+ B", small), small
        assert "1 session without a cost: not read yet, or no call recorded; wane report reads all" in out

    def test_branches_of_one_title_say_where_they_part(
        self, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
        folder = tmp_path / "claude" / "projects" / "p"
        folder.mkdir(parents=True)

        def write(name: str, *turns: str) -> None:
            lines: list[dict[str, object]] = []
            for number, text in enumerate(turns):
                said = {"type": "user", "uuid": f"{name}u{number}", "message": {"role": "user", "content": text}}
                message = {"id": f"{name}m{number}", "role": "assistant", "model": "claude-sonnet-4-5"}
                usage = {"input_tokens": 100, "output_tokens": 4}
                reply = {"type": "assistant", "uuid": f"{name}a{number}", "parentUuid": f"{name}u{number}"}
                content = [{"type": "text", "text": "Done."}]
                lines += [said, reply | {"message": {**message, "usage": usage, "content": content}}]
            chained = zip(lines, [None, *(line["uuid"] for line in lines)], strict=False)
            rows = [{"sessionId": name, **line, "parentUuid": parent} for line, parent in chained]
            (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))

        write("aaaa0001", "fix the login", "run the tests", "use bcrypt")
        write("bbbb0002", "fix the login", "run the tests", "use argon2 instead")
        write("cccc0003", "fix the login", "run the tests")
        write("dddd0004", "another task")
        lines = run("sessions", "--all").out.splitlines()
        heads = [(at, line.split(" ")[0]) for at, line in enumerate(lines) if line.startswith(("aaaa", "bbbb", "cccc"))]
        below = {name: lines[at + 2].strip() for at, name in heads}
        assert below["aaaa0001"] == "from your message 3 on: use bcrypt"
        assert below["bbbb0002"] == "from your message 3 on: use argon2 instead"
        assert below["cccc0003"] == "ends after 2 messages of yours, where the others of this title go on"
        assert sum("from your message" in line or "ends after" in line for line in lines) == 3

    def test_an_id_or_its_beginning_is_enough_for_the_commands_that_take_a_session(
        self, run: Run, session_path: Path, rollout: Path
    ) -> None:
        ids = ("019af3c1-0a0b-7c1d-8e2f-001122334455", "019af3c1-0a0c-7c1d-8e2f-001122334455")
        for number, name in enumerate(ids):
            path = rollout.with_name(f"rollout-2026-01-02T03-04-05-{name}.jsonl")
            turn = {"type": "event_msg", "payload": {"type": "user_message", "message": f"task {number}"}}
            said = [{"type": "message", "role": role, "content": f"{role} {number}"} for role in ("user", "assistant")]
            lines = [turn, *({"type": "response_item", "payload": item} for item in said)]
            path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
        rollout.unlink()
        listed = run("sessions", "--all").out
        for number, short in enumerate(("019af3c1-0a0b", "019af3c1-0a0c")):
            assert f"\n{short}  20" in listed
            (session,) = json.loads(run("replay", short, "--strategy", "none", "--json").out)["sessions"]
            assert session["title"] == f"task {number}"
        both = run("replay", "019af")
        assert both.code == 2
        assert f"2 sessions have an id that begins with '019af'; give more: {ids[0]}, {ids[1]}" in both.err
        shown = run("show", "019af3c1-0a0b")
        assert shown.code == 2
        assert "019af3c1-0a0b is a session of Codex, " in shown.err
        nothing = run("view", "feed")
        assert nothing.code == 2
        assert "no session has an id that begins with 'feed'; wane sessions --all lists them" in nothing.err

    def test_old_ones_are_counted(self, run: Run, rollout: Path) -> None:
        for number in range(SHOWN + 4):
            shutil.copy(rollout, rollout.with_name(f"rollout-{number}.jsonl"))
        out = run("sessions", "--all").out
        assert out.count("fix the") == SHOWN
        assert "and 5 older; --json lists them all" in out
        assert len(json.loads(run("sessions", "--all", "--json").out)) == SHOWN + 5


class TestShow:
    def show_session(self, run: Run, name: str | Path) -> dict[str, Any]:
        done = run("show", name, "--json")
        assert done.code == 0, done.err
        session: dict[str, Any] = json.loads(done.out)
        return session

    def test_by_id_by_its_beginning_and_by_path_while_it_is_being_written(self, run: Run, session_path: Path) -> None:
        with Journal.open(session_path, fsync=False):
            assert (
                self.show_session(run, "5a3e") == self.show_session(run, "5a") == self.show_session(run, session_path)
            )

    def test_json(self, run: Run, session_path: Path) -> None:
        session = self.show_session(run, session_path)
        records = read(session_path).records
        passes = [record for record in records if isinstance(record, PassRecord)]
        calls = [record for record in records if isinstance(record, UsageRecord)]
        assert passes
        assert [entry["tokens_after"] for entry in session["passes"]] == [record.tokens_after for record in passes]
        assert session["usage"]["model_calls"] == len(calls)
        assert session["usage"]["input_tokens"] == sum(record.input_tokens for record in calls)
        assert session["usage"]["cost_usd"] == pytest.approx(sum(record.cost or 0 for record in calls))
        assert session["budget"] == BUDGET
        assert [turn["text"][:4] for turn in session["turns"]] == ["The ", "Now ", "Last"]
        episodes = {entry["name"]: entry for entry in session["episodes"] if entry["name"]}
        act = episodes["accept-fractions"]
        assert (act["type"], act["turn"], act["removed"]) == ("act", 0, True)
        assert (act["dependencies"], act["tokens"]["view"]) == (["map-parser"], 0)
        assert episodes["bump-version"]["turn"] == 2
        assert episodes["map-parser"]["description"].startswith("parse_time in parse.py")

    def test_the_snapshot_at_80_columns(self, spawn: Run, tmp_path: Path) -> None:
        # Not the test's own directory, whose name may be too long for a line.
        path = sample.save(tmp_path, cwd=Path("/home/me/dates"), budget=BUDGET)
        done = spawn("show", path, env={"TZ": "UTC"})
        assert (done.code, done.err) == (0, "")
        assert matches_snapshot("show", done.out)

    def test_why_a_view_is_over_its_budget_is_said(self, run: Run, tmp_path: Path) -> None:
        within = sample.save(tmp_path / "within", cwd=tmp_path)
        # What is fixed leaves less than the least room, and unfinished work needs more than that.
        policy = Policy(low_water=0.4, min_room=0.4)
        over = sample.save(tmp_path / "over", cwd=tmp_path, budget=200, policy=policy)
        assert " over " not in run("show", within).out
        shown = " ".join(run("show", over).out.split())
        assert "over by 88 tokens; no pass may take: active episode 'bump-version' 118, needed by" in shown
        assert "system prompt and tools 56, user turns 52" in shown
        # Each pass says so of its own time, in the same words.
        last = self.show_session(run, over)["passes"][-1]
        assert (last["satisfied"], last["overflowed"], last["tokens_after"], last["budget"]) == (False, False, 204, 200)
        assert last["pinned"] == {
            "needed by unfinished work": 62,
            "system prompt and tools": 56,
            "user turns": 52,
            "active episode": 34,
        }
        assert "nothing; 4 over the budget: needed by unfinished work 62, system prompt and tools 56, " in shown
        assert "user turns 52, active episode 'bump-version' 34" in shown

    def test_a_session_that_nothing_manages_has_no_budget_to_be_over(
        self, run: Run, store: SessionStore, here: Path
    ) -> None:
        with store.create(here, message_format="openai", session_id="0b5e", fsync=False) as journal:
            journal.append(ConfigRecord(budget=100, policy=Policy(), strategy="none"))
            journal.append(MessageRecord(message={"role": "user", "content": 1_000 * "Hello. "}))
        shown = " ".join(run("show", "0b5e").out.split())
        assert "1,750 tokens; 1,750 with all that was evicted" in shown
        assert " over " not in shown

    def test_what_every_request_carries_counts_in_the_whole_as_in_the_view(
        self, run: Run, store: SessionStore, session_path: Path, here: Path
    ) -> None:
        with store.create(here, message_format="openai", session_id="0b5e", fsync=False) as journal:
            journal.append(ConfigRecord(budget=BUDGET, policy=Policy(min_room=0.0), overhead=2_000))
            journal.append(MessageRecord(message={"role": "user", "content": "Hello."}))
            journal.append(UsageRecord(items=1, input_tokens=2_500, output_tokens=9))
            journal.append(MessageRecord(message={"role": "assistant", "content": "Hello."}))
        nothing_evicted = self.show_session(run, "0b5e")["tokens"]
        assert nothing_evicted["history"] == nothing_evicted["view"] > 2_500
        shown = " ".join(run("show", "0b5e").out.split())
        assert f"2,502 of {BUDGET:,} tokens; 2,502 with all that was evicted" in shown
        session = self.show_session(run, session_path)
        kept = sum(entry["tokens"]["history"] - entry["tokens"]["view"] for entry in session["episodes"])
        assert session["tokens"]["history"] - session["tokens"]["view"] == kept

    def test_all_of_long_texts(self, run: Run, session_path: Path) -> None:
        ending = "which is where fractions fail."
        assert ending not in " ".join(run("show", session_path).out.split())
        assert "where fractions fail." in " ".join(run("show", session_path, "--full").out.replace("  ", "").split())

    def test_a_session_that_has_just_begun(self, run: Run, store: SessionStore, here: Path) -> None:
        with store.create(here, message_format="openai", fsync=False) as journal:
            done = run("show", journal.path)
        assert done.code == 0, done.err
        assert "no model call was reported" in done.out

    def test_a_record_cut_short_is_told(self, run: Run, session_path: Path) -> None:
        whole = self.show_session(run, session_path)
        session_path.write_bytes(session_path.read_bytes() + b'{"kind":"mess')
        assert self.show_session(run, session_path) == whole | {"torn_bytes": 13}
        assert "the last record was cut short (13 bytes)" in run("show", session_path).out

    def test_one_of_a_thing_is_not_told_in_the_plural(self, run: Run, store: SessionStore, here: Path) -> None:
        with store.create(here, message_format="openai", session_id="0b5e", fsync=False) as journal:
            journal.append(MessageRecord(message={"role": "user", "content": "Hi."}))
            journal.append(UsageRecord(items=1, input_tokens=1, output_tokens=1, cost=0.7))
        shown = " ".join(run("show", "0b5e").out.split())
        assert ", 1 message (openai)" in shown
        assert "1 model call: 1 token in (0 read from the cache, 0 written to it), 1 out; $0.70" in shown
        assert " 1 token " in shown.replace("1 token in", "")

    def test_one_of_another_agent(self, run: Run, tmp_path: Path) -> None:
        line = {"timestamp": "2026-01-02T03:04:05.000Z", "type": "session_meta", "payload": {"id": "s", "cwd": "/w"}}
        path = tmp_path / "rollout.jsonl"
        path.write_text(f"{json.dumps(line)}\n", encoding="utf-8")
        done = run("show", path)
        assert (done.code, done.out) == (2, "")
        assert f"{path} is a session of Codex, and wane show knows only Wane's own" in done.err
        assert f"look at it with: wane view {path}\n" in done.err

    def test_what_cannot_be_shown_is_said_in_a_line(
        self, run: Run, store: SessionStore, session_path: Path, here: Path
    ) -> None:
        sample.save(store.directory(here), cwd=here, session_id="5a4")
        lines = session_path.read_bytes().splitlines(keepends=True)
        session_path.write_bytes(b"".join([*lines[:4], b"damage\n", *lines[5:]]))
        for name, code, why in (
            ("zzz", 2, "'zzz'"),
            ("no/such/file.jsonl", 2, "no/such/file.jsonl"),
            ("5a", 2, "give more: 5a3e, 5a4"),
            ("5a3e", 1, "line 5 is damaged"),
        ):
            done = run("show", name)
            assert (done.code, done.out, done.err.count("\n")) == (code, "", 1)
            assert why in done.err
