from __future__ import annotations

import json
from pathlib import Path

import pytest

from wane.caches import CacheRules
from wane.core import Kind
from wane.core.errors import ConfigError
from wane.formats.message_format import Part
from wane.lab.readers import read_session
from wane.lab.recorded_session import CallUsage, Compaction, ModelCall, RecordedEviction, RecordedSession
from wane.lab.replaying.recorded import RecordedViews
from wane_research.validation import Validation, ValidationRow, drops_reasoning, validate

RULES = CacheRules("test", minimum=100, lifetime=300, breakpoints=4, charges_writes=True)
SHARED = Path(__file__).resolve().parents[3] / "shared" / "sessions"


def session(reads: list[int], *, step: float = 10, compacted: bool = False) -> RecordedSession:
    """Calls of 1,000, 4,000, ... input tokens, each an answer and a turn of the user after the last."""
    made = RecordedSession("made", "pi")
    for number, read in enumerate(reads):
        made.parts += [Part(Kind.USER, f"turn {number} " * 20), Part(Kind.TEXT, f"answer {number} " * 20)]
        first = len(made.parts) - 1
        usage = CallUsage(0, read, 1000 + 3000 * number - read)
        made.calls.append(ModelCall(first, first + 1, usage, at=number * step, model="claude-opus-4-6"))
    made.messages = list(range(len(made.parts)))
    if compacted:
        made.compactions.append(Compaction(4, "summary", 4))
    return made


def test_reads_as_the_rules_say_are_right() -> None:
    done = validate(session([0, 1000, 4000, 7000]), RULES)
    assert [(row.recorded, row.simulated, row.outlier) for row in done.rows] == [
        (0, 0, ""),
        (1000, 1000, ""),
        (4000, 4000, ""),
        (7000, 7000, ""),
    ]
    assert (done.recorded, done.simulated, done.mean_error, done.mean_share, done.close) == (12000, 12000, 0, 0, 1)
    assert (done.name, done.source, done.model, done.input) == ("made", "pi", "claude-opus-4-6", 22000)


def test_calls_that_differ_say_what_was_read_instead() -> None:
    done = validate(session([700, 0, 4000, 4000, 900]), RULES)
    assert [row.outlier for row in done.rows] == ["more", "nothing", "", "earlier", "head"]
    assert done.outliers == {"earlier": 1, "head": 1, "more": 1, "nothing": 1}
    assert done.close == pytest.approx(0.2)
    assert done.mean_error == pytest.approx((700 + 1000 + 0 + 3000 + 9100) / 5)
    assert done.mean_share_of_kept == 0


def test_time_passes_as_recorded() -> None:
    assert validate(session([0, 0, 0], step=400), RULES).recorded == 0
    assert validate(session([0, 0, 0], step=400), RULES).simulated == 0


def test_a_compaction_leaves_the_head() -> None:
    rows = validate(session([0, 1000, 0, 7000], compacted=True), RULES).rows
    assert rows[2].simulated < 1000
    assert rows[3].simulated == 7000


def test_a_pass_leaves_what_it_did_not_remove() -> None:
    made = session([0] * 5)
    made.evictions = [RecordedEviction(7, (5,), 0, 0), RecordedEviction(4, (1, 2), 0, 0)]
    views = RecordedViews(made, [part.kind for part in made.parts])
    assert [views.of(call) for call in made.calls] == [[0], [0, 1, 2], [0, 3, 4], [0, 3, 4, 6], [0, 3, 4, 6, 7, 8]]


def test_a_session_without_usage_cannot_be_compared() -> None:
    empty = RecordedSession("empty", "pi", parts=[Part(Kind.USER, "hello")], messages=[0])
    with pytest.raises(ConfigError, match="empty: no call recorded its usage"):
        validate(empty)


def test_it_becomes_json() -> None:
    done = validate(session([0, 1000, 0]), RULES)
    data = json.loads(json.dumps(done.to_dict()))
    assert (data["calls"], data["recorded"], data["simulated"], data["outliers"]) == (3, 1000, 5000, {"nothing": 1})
    assert data["rules"]["name"] == "test"
    assert data["rows"][2] | {"at": 0} == {
        "call": 2,
        "at": 0,
        "input": 7000,
        "recorded": 0,
        "simulated": 4000,
        "outlier": "nothing",
    }
    assert ValidationRow(0, None, 10, 4, 6).error == 2


@pytest.mark.parametrize(
    ("model", "drops"),
    [
        ("claude-3-7-sonnet-20250219", True),
        ("claude-sonnet-4-20250514", True),
        ("claude-sonnet-4-5-20250929", True),
        ("claude-sonnet-4-6", False),
        ("claude-haiku-4-5", True),
        ("claude-opus-4-20250514", True),
        ("claude-opus-4-1", True),
        ("claude-opus-4-5-20251101", False),
        ("claude-opus-5", False),
        ("claude-fable-5", False),
        ("gpt-5.5", True),
        ("gpt-5.6-sol", False),
        ("gemini-3.1-pro-preview", False),
        ("", False),
    ],
)
def test_which_models_forget_the_reasoning_of_earlier_turns(model: str, drops: bool) -> None:
    assert drops_reasoning(model) is drops


@pytest.fixture(scope="module")
def validations() -> list[Validation]:
    if not SHARED.is_dir():
        pytest.skip("no recorded sessions: ../shared/sessions (relative to the repository) is not there")
    return [validate(it) for folder in ("pi", "claude-code", "codex") for it in read_session(SHARED / folder)]


@pytest.mark.full
@pytest.mark.parametrize(
    ("source", "close", "total", "share"),
    [("pi", 0.94, 0.06, 0.05), ("claude-code", 0.97, 0.005, 0.015), ("codex", 0.92, 0.015, 0.03)],
)
def test_recorded_sessions_of_each_agent_are_met(
    validations: list[Validation], source: str, close: float, total: float, share: float
) -> None:
    of_source = [validation for validation in validations if validation.source == source]
    rows = [row for validation in of_source for row in validation.rows]
    assert sum(not row.outlier for row in rows) / len(rows) > close
    assert sum(row.simulated for row in rows) == pytest.approx(sum(row.recorded for row in rows), rel=total)
    assert sum(abs(row.error) / row.input for row in rows) / len(rows) < share


@pytest.mark.full
def test_the_lifetime_is_the_one_that_was_paid_for(validations: list[Validation]) -> None:
    hours = {it.name: it.rules.lifetime / 3600 for it in validations if it.source == "claude-code"}
    assert hours["packmind-8f_2ac5b863c7_0"] == 1
    assert hours["entireio-5e_5207b424e2_0"] == pytest.approx(1 / 12)
