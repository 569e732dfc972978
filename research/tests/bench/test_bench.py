"""The public benchmark, on small recordings made here, and its tables of what is public."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripts import bench_doc

from tests.cli.test_lab import messages, pi_lines
from wane.caches import rules_for
from wane.core import Kind
from wane.core.errors import ConfigError, FormatError, WaneError
from wane.lab.readers import gather
from wane.lab.replaying.strategy_replay import Pricing, replay
from wane.lab.replaying.studying import Studied, study
from wane.strategies.registry import STRATEGY_NAMES, get_strategy
from wane.strategies.strategy import Slot, StrategySettings, Substitute
from wane_research.bench.figures import Evidence, Figures, Watched, names, render_part, total
from wane_research.bench.results import at_view, read_result
from wane_research.bench.running import PRICES
from wane_research.bench.sources import RecordingError, Source, SourceFile, check_recordings, load_sources, script
from wane_research.cli.lab.bench import run_on
from wane_research.cli.lab.commands import BenchOptions

ROOT = Path(bench_doc.__file__).parents[1]
SHARED = ROOT.parent / "shared" / "sessions"

STRATEGIES = {"int": st.integers(0, 10**9), "float": st.floats(0, 1e6)}
FIGURES = st.builds(Figures, **{field.name: STRATEGIES[field.type] for field in fields(Figures)})


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Finished work is kept in a folder of the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "recordings"
    path.mkdir()
    (path / "chat.json").write_text(json.dumps(list(messages(60))), encoding="utf-8")
    (path / "pi.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in pi_lines()), encoding="utf-8")
    return path


@pytest.fixture
def sources(folder: Path) -> list[Source]:
    """Two sources with a recording each, of what the folder holds."""
    made = []
    for path in sorted(folder.iterdir()):
        data = path.read_bytes()
        recording = SourceFile(path.name, f"a/{path.name}", len(data), hashlib.sha256(data).hexdigest())
        made.append(Source(path.stem, "o/r", "MIT", "0" * 40, "made here", (recording,)))
    return made


@pytest.fixture
def chat(folder: Path) -> Studied:
    pricing = Pricing(PRICES, rules_for(PRICES.provider, PRICES.model))
    return study(gather([folder / "chat.json"]).recordings, pricing)[0]


def run_bench(folder: Path, sources: Sequence[Source], **options: Any) -> int:
    defaults = {"folder": folder, "strategy": "cwl,compact,truncate", "budgets": "3k,5k", "workers": 1}
    return run_on(BenchOptions(**{**defaults, **options}), sources)


class TestSources:
    def test_the_table_names_public_files_at_a_commit(self) -> None:
        sources = load_sources()
        recordings = [recording for source in sources for recording in source.recordings]
        assert len({recording.name for recording in recordings}) == len(recordings) == 14
        assert all(re.fullmatch(r"[0-9a-f]{64}", recording.sha256) for recording in recordings)
        assert all(re.fullmatch(r"[0-9a-f]{40}", source.commit) for source in sources)
        assert {source.licence for source in sources} <= {"MIT", "Apache-2.0"}

    @pytest.mark.skipif(not SHARED.is_dir(), reason="no recorded sessions: ../shared/sessions is not there")
    def test_its_digests_are_those_of_real_recordings(self) -> None:
        check_recordings(load_sources(), SHARED)

    def test_the_script_fetches_what_is_missing_or_differs(self, folder: Path, sources: list[Source]) -> None:
        (folder / "chat.json").unlink()
        spaced = folder.rename(folder.parent / "my recordings")
        (spaced / "pi.jsonl").write_text("{}", encoding="utf-8")
        commands = [shlex.split(line) for line in script(sources, spaced) if not line.startswith("#")]
        url = f"https://raw.githubusercontent.com/o/r/{'0' * 40}/a"
        assert [command[-2:] for command in commands] == [
            [str(spaced / "chat.json"), f"{url}/chat.json"],
            [str(spaced / "pi.jsonl"), f"{url}/pi.jsonl"],
        ]

    def test_another_file_is_refused_by_name(self, folder: Path, sources: list[Source]) -> None:
        check_recordings(sources, folder)
        path = folder / "pi.jsonl"
        path.write_bytes(path.read_bytes()[:-1] + b" ")
        (folder / "chat.json").unlink()
        with pytest.raises(RecordingError, match=r"there is no folder .*nothing.*--sources"):
            check_recordings(sources, folder / "nothing")
        with pytest.raises(RecordingError, match=r"different .*pi\.jsonl; missing in .*chat\.json.*--sources"):
            run_bench(folder, sources)


def naive(studied: Studied, call: int, view: Sequence[Slot]) -> float | None:
    """Evidence recall by its definition, without an index."""
    session = studied.recording.session
    model_call = session.calls[call]
    history: set[str] = set()
    pinned: set[str] = set()
    for part in session.parts[: model_call.first]:
        history |= names(render_part(part))
        if part.kind in (Kind.SYSTEM, Kind.USER, Kind.NOTICE):
            pinned |= names(render_part(part))
    used: set[str] = set()
    for part in session.parts[model_call.first : model_call.stop]:
        if part.kind is Kind.CALL:
            used |= names(render_part(part))
    needed = (used & history) - pinned
    held: set[str] = set()
    for slot in view:
        held |= names(slot.text if isinstance(slot, Substitute) else render_part(session.parts[slot]))
    return len(needed & held) / len(needed) if needed else None


class TestFigures:
    @pytest.mark.quick(1)
    @pytest.mark.parametrize("strategy", STRATEGY_NAMES)
    def test_what_is_watched_is_what_the_definitions_say(self, chat: Studied, strategy: str) -> None:
        evidence, material = Evidence(chat.recording.session), chat.subject.material
        views: list[list[Slot]] = []

        class Copied(Watched):
            def _measure(self, before: int, view: Sequence[Slot]) -> None:
                views.append([*view])
                super()._measure(before, view)

        settings = replace(chat.under(StrategySettings(budget=3_000)), overhead=material.overhead)
        watched = Copied(get_strategy(strategy, settings), material, evidence)
        plain = replay(chat.subject, get_strategy(strategy, settings), 3_000, chat.pricing)
        totals = replay(chat.subject, watched, 3_000, chat.pricing).totals
        # Watching changes nothing.
        assert replace(totals, seconds=0) == replace(plain.totals, seconds=0)
        assert len(views) == len(chat.recording.session.calls)
        recalls = [naive(chat, call, view) for call, view in enumerate(views)]
        assert watched.recalls == [recall for recall in recalls if recall is not None]
        shares = []
        for call, view in zip(chat.recording.session.calls, views, strict=True):
            spoken = [at for at, item in enumerate(material.items[: call.first]) if item.kind is Kind.USER]
            remaining = sum(material.items[at].tokens for at in spoken if at in view)
            shares.append(remaining / sum(material.items[at].tokens for at in spoken))
        assert watched.shares == pytest.approx(shares)
        if strategy in ("none", "cwl", "paper", "mask"):
            assert min(watched.shares) == 1.0
        if strategy == "truncate":
            assert min(watched.shares) < 0.5

    @given(st.lists(FIGURES, min_size=1, max_size=6), st.randoms(use_true_random=False))
    def test_the_order_of_recordings_does_not_count(self, several: list[Figures], shuffle: Random) -> None:
        assert total(shuffle.sample(several, len(several))) == total(several)


class TestCommand:
    def test_it_prints_a_table_for_each_budget(
        self, folder: Path, sources: list[Source], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run_bench(folder, sources) == 0
        out = " ".join(capsys.readouterr().out.split())
        assert "2 recordings: 127 model calls" in out
        assert "Budget 3,000 tokens strategy view" in out
        assert "Budget 5,000 tokens strategy view" in out

    def test_an_interrupted_run_goes_on(
        self, folder: Path, sources: list[Source], cache: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        run_bench(folder, sources, as_json=True)
        whole = json.loads(capsys.readouterr().out)
        [path] = cache.rglob("*.jsonl")
        lines = path.read_text(encoding="utf-8").split("\n")
        # As if it had been ended in the middle of a line.
        path.write_text("\n".join(lines)[: len("\n".join(lines)) // 2], encoding="utf-8")
        run_bench(folder, sources, as_json=True)
        captured = capsys.readouterr()
        finished = re.search(r"(\d+) of 14 cells are finished", captured.err)
        assert finished
        assert 0 < int(finished[1]) < 14
        again = json.loads(captured.out)
        assert again == whole

    @pytest.mark.full
    def test_a_check_measures_again(
        self, folder: Path, sources: list[Source], tmp_path: Path, cache: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "result.json"
        run_bench(folder, sources, author="Ada", output=path)
        before = {kept.name for kept in cache.rglob("*.jsonl")}
        capsys.readouterr()
        options = {"strategy": None, "budgets": None, "check": path}
        assert run_bench(folder, sources, **options) == 0
        assert "all figures of 7 rows are those of Ada" in capsys.readouterr().err
        assert {kept.name for kept in cache.rglob("*.jsonl")} == before
        data = json.loads(path.read_text(encoding="utf-8"))
        row = next(row for row in data["rows"] if (row["strategy"], row["budget"]) == ("cwl", 3_000))
        row["figures"]["faults"] += 1
        row["figures"]["cost"] *= 1.000001
        path.write_text(json.dumps(data), encoding="utf-8")
        assert run_bench(folder, sources, **options) == 1
        lines = capsys.readouterr().out.split("\n")
        assert [line.split(" is ")[0] for line in lines[:2]] == ["cwl at 3,000: cost", "cwl at 3,000: faults"]
        # What was not asked for is not measured.
        assert run_bench(folder, sources, **{**options, "strategy": "truncate"}) == 0

    @pytest.mark.quick(3)
    @pytest.mark.parametrize(
        ("change", "why"),
        [
            ({"benchmark": "another"}, "it is not a result of wane lab bench"),
            ({"format": 2}, "its format is 2"),
            ({"prices": {"model": "m", "copied": "d"}}, "its prices are not those"),
            ({"rows": []}, "it has no row of none"),
            ({"rows": [{"strategy": "none", "budget": None, "figures": {}}]}, "figures are not the"),
            ({"versions": None}, "versions is not a table"),
            ({"recordings": 1}, "not a complete result"),
        ],
    )
    def test_what_is_no_result_is_refused(
        self, folder: Path, sources: list[Source], tmp_path: Path, change: dict[str, Any], why: str
    ) -> None:
        path = tmp_path / "result.json"
        run_bench(folder, sources, strategy="none", author="Ada", output=path)
        data = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps({**data, **change}), encoding="utf-8")
        with pytest.raises(FormatError, match=why):
            read_result(path)

    def test_options_that_cannot_work(self, folder: Path, sources: list[Source], tmp_path: Path) -> None:
        with pytest.raises(WaneError, match="add --author"):
            run_bench(folder, sources, output=tmp_path / "r.json")
        with pytest.raises(ConfigError, match="known: all, chat, pi"):
            run_bench(folder, sources, source="chatt")
        path = tmp_path / "r.json"
        run_bench(folder, sources[:1], strategy="none", author="Ada", output=path)
        with pytest.raises(ConfigError, match=r"recordings that this version does not know: chat\.json"):
            run_bench(folder, sources[1:], strategy=None, budgets=None, check=path)
        with pytest.raises(ConfigError, match="has no row of cwl"):
            run_bench(folder, sources, strategy="cwl", check=path)


def test_between_two_budgets(folder: Path, sources: list[Source], tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    run_bench(folder, sources, author="Ada", output=path)
    result = read_result(path)
    low, high = (result.values(row) for row in result.rows if row.strategy == "truncate")
    middle = at_view(result, "truncate", (low["view"] + high["view"]) / 2)
    assert middle is not None
    assert middle["recall"] == pytest.approx((low["recall"] + high["recall"]) / 2)
    assert at_view(result, "truncate", low["view"] - 1) is at_view(result, "truncate", high["view"] + 1) is None


def test_the_page_is_made_of_the_results(tmp_path: Path) -> None:
    page = ROOT / "research/docs/bench.md"
    assert bench_doc.main(["--check", str(page)]) == 0
    changed = tmp_path / "bench.md"
    changed.write_text(page.read_text(encoding="utf-8").replace("| `cwl` ", "| `clw` "), encoding="utf-8")
    assert bench_doc.main(["--check", str(changed)]) == 1
