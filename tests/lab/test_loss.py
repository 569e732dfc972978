"""What a strategy lost, judged on small sessions by hand, against a naive reading, and on real sessions."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lab.naive_loss import Naive, naive_identifiers
from tests.strategies import times
from wane.core import Kind
from wane.formats.message_format import Part
from wane.identifiers import candidates, identifiers, spoken
from wane.lab.loss import CallLoss, Index, Loss, LossTotals, Reread
from wane.lab.loss.need_index import Touched, touched_files
from wane.lab.readers import join, read_session
from wane.lab.recorded_session import ModelCall, RecordedSession
from wane.strategies.strategy import Slot, Substitute

SESSIONS = Path(__file__).resolve().parents[3] / "shared" / "sessions"


class Story:
    """Tells a session part by part; assistant parts that follow each other belong to one call."""

    def __init__(self) -> None:
        self.session = RecordedSession("story", "openai")

    def _add(self, *parts: Part) -> Story:
        self.session.parts += parts
        return self

    def user(self, text: str) -> Story:
        return self._add(Part(Kind.USER, text))

    def result(self, text: str, call_id: str, *, failed: bool = False) -> Story:
        return self._add(Part(Kind.RESULT, text, call_id, shows_nothing=failed))

    def says(self, *parts: Part | str) -> Story:
        first = len(self.session.parts)
        for part in parts:
            self._add(Part(Kind.TEXT, part) if isinstance(part, str) else part)
        self.session.calls.append(ModelCall(first, len(self.session.parts)))
        return self

    def loss(self, tokens: int = 10) -> Loss:
        return Loss(Index(self.session, [tokens] * len(self.session.parts)))


def call(call_id: str, tool: str, **arguments: Any) -> Part:
    return Part(Kind.CALL, call_id=call_id, tool=tool, arguments=json.dumps(arguments))


def observe_views(story: Story, *views: Iterable[Slot]) -> list[CallLoss]:
    loss = story.loss()
    return [loss.observe(number, list(view)) for number, view in enumerate(views)]


# Identifiers


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see src/wane/core.py:12, ok", {"src/wane/core.py"}),
        ("call window_size() now", {"window_size"}),
        ("a ContextWindow, contextwindow", {"ContextWindow"}),
        ("Contextual", set()),
        ("abc_def", set()),  # seven characters
        ("abc_defg", {"abc_defg"}),
        ("/app/run ./app/run ../app/runs", {"/app/run", "app/runs"}),
        (".gitignore, ~/.bashrc_old", {".gitignore", "bashrc_old"}),
        ("The end of window_size.", {"window_size"}),
        ("--some_option=value_of_it", {"some_option", "value_of_it"}),
        ("3.14159265 2024/11/20", set()),  # no letter
        (r"print('\nsome_name\tother_name')", {"some_name", "other_name"}),
        ("https://example.org/some/page", {"example.org/some/page"}),
        ("grüße_an_alle some_name的", {"e_an_alle", "some_name"}),
        ("<system-reminder>see src/a/b.py</system-reminder>", {"src/a/b.py"}),
        ("<file_path>src/a/b.py</file_path >", {"file_path", "src/a/b.py"}),
        ("a </usr/share/doc b", {"/usr/share/doc"}),  # no tag, so a path
        (r"\u003csafe_test_id\u003e in src/a.ts\u003c/file_path\u003e", {"safe_test_id", "src/a.ts"}),
        (r"<\/file_path> \"src\/api\/a.php\"", {"src/api/a.php"}),
        ("&lt;file_path&gt;src/a/b.py&lt;/file_path&gt;", {"file_path", "src/a/b.py"}),
        (r"src/a/b.py\u2026/usr/share", {"src/a/b.py", "/usr/share"}),
        ("\x1b[31msrc/\x1b[01;31mwane\x1b[m/a.py\x1b[0m", {"src/wane/a.py"}),
        (r"\u001b[35msrc/a/b.py\x1b[0m \033[1msome_name", {"src/a/b.py", "some_name"}),
        ("\x1b]8;;file:///home/x/\x1b\\src/a/b.py\x1b]8;;\x1b\\", {"src/a/b.py"}),
        (
            "src/a/b.py-12-some_name\nsrc/a/b.py-13-\nsrc/a/b.py:14:other_name",
            {"src/a/b.py", "some_name", "other_name"},
        ),
        (r"src/a/b.py-12-some_name\nsrc/a/b.py-13-    x", {"src/a/b.py", "some_name"}),
        ("gpt-6.1-12-some_name, see node.js-18-alpine", {"gpt-6.1-12-some_name", "node.js-18-alpine"}),
        ("", set()),
    ],
)
def test_identifiers_are_told_by_length_and_marks(text: str, found: set[str]) -> None:
    assert identifiers(text) == found


@given(st.text(alphabet="aB_./-\\n 1é\n", max_size=60))
def test_identifiers_are_those_of_a_naive_reading(text: str) -> None:
    assert identifiers(text) == naive_identifiers(text)
    assert identifiers(text) <= set().union(*candidates(text))


@pytest.mark.parametrize("filler", ["." * 5_000_000, "a/" * 2_000_000, "word " * 800_000, "\\n" * 2_000_000])
def test_huge_texts_are_read_a_stretch_at_a_time(filler: str) -> None:
    found = identifiers(f"first_name {filler} last_name")
    assert {"first_name", "last_name"} <= found
    assert len(found) <= 3


def test_a_call_says_its_values_but_not_its_names() -> None:
    part = call("1", "read_file", file_path="src/a.py", edits=[{"old_string": "x", "count": 3}])
    assert spoken(part) == ["src/a.py", "x"]
    assert spoken(Part(Kind.CALL, arguments="*** Begin Patch")) == ["*** Begin Patch"]
    assert spoken(Part(Kind.CALL)) == [""]


# Reference recall


def test_a_summary_without_a_text_is_known_by_its_bounds_alone() -> None:
    story = Story().user("aaaa_aaaa bbbb_bbbb").says("aaaa_aaaa bbbb_bbbb").says("aaaa_aaaa")
    loss = story.loss()
    summary = Substitute("", 3)  # room for one of the two, which take ten characters each
    loss.observe(0, [summary])
    loss.observe(1, [summary])
    totals = loss.totals()
    assert totals.reference_recall == 0
    assert totals.in_view_at_best == pytest.approx(2 + 0.2)  # the one that serves twice, and a fifth of the other
    assert totals.reference_recall_at_best == pytest.approx(2.2 / 3)


def test_a_placeholder_without_a_text_is_no_summary() -> None:
    story = Story().user("aaaa_aaaa").says("aaaa_aaaa")
    loss = story.loss()
    loss.observe(0, [Substitute("", 9, 0)])
    assert loss.totals().in_view_at_best == 0


# Edit grounding


def edit_story() -> Story:
    """A file is read twice, and edited."""
    read = {"path": "src/a.py"}
    return (
        Story()
        .user("go")
        .says(call("r1", "read", **read))
        .result("one", "r1")
        .says(call("r2", "read", **read))
        .result("two", "r2")
        .says(call("e1", "edit", path="src/a.py"), call("e2", "edit", path="src/b.py"))
        .result("done", "e1")
        .result("done", "e2")
    )


def test_an_edit_is_grounded_by_the_latest_read() -> None:
    edits = [(loss.edits, loss.grounded) for loss in observe_views(edit_story(), [0], [0, 1, 2], [0, 3, 4])]
    assert edits == [(0, 0), (0, 0), (1, 1)]
    assert observe_views(edit_story(), [0], [0], [0, 1, 2])[-1].grounded == 0
    shortened = Substitute("tw", 1, 4)
    assert observe_views(edit_story(), [0], [0], [0, 1, 2, 3, shortened])[-1].grounded == 0


@pytest.mark.parametrize(("tool", "latest"), [("read", 2), ("bash", 4)])
def test_a_read_that_failed_shows_no_file_unless_it_is_a_command_line(tool: str, latest: int) -> None:
    """`cat src/a.py && make` shows the file, whatever becomes of `make`."""
    story = Story().user("go").says(call("r1", "read", path="src/a.py")).result("one", "r1")
    again = call("r2", tool, path="src/a.py") if tool == "read" else call("r2", tool, command="cat src/a.py && make")
    story.says(again).result("no", "r2", failed=True).says(call("e1", "edit", path="src/a.py"))
    assert Index(story.session, [10] * len(story.session.parts)).needed_reads[-1] == [latest]


@pytest.mark.parametrize(
    ("command", "touches"),
    [
        ("cat src/a.py", Touched(("src/a.py",))),
        ("cd src && sed -n '1,20p' a.py", Touched(("src/a.py",))),
        ("nl -ba a.py | head -5", Touched(("a.py",))),
        ("wc -l a.py", Touched()),
        ("grep -n thing a.py", Touched()),
        ("sed -i s/a/b/ a.py", Touched((), ("a.py",))),
        ("cat > a.py <<'EOF'\nx = 1\nEOF", Touched((), ("a.py",))),
        ("printf x > a.py && cat a.py", Touched(("a.py",), ("a.py",))),
        ("rm a.py; mv b.py c.py; chmod +x d.sh; git add e.py", Touched()),
        ("python report.py > out.txt", Touched()),
        ("bash -lc 'cat a.py'", Touched(("a.py",))),
        ('cat > "$file" <<EOF\nx\nEOF\ncat "$file" *.py', Touched()),
        ("echo $(cat a.py)", Touched(("a.py",))),
    ],
)
def test_shell_commands_show_and_edit_files(command: str, touches: Touched) -> None:
    assert touched_files(call("1", "bash", command=command)) == touches


@pytest.mark.parametrize(
    ("part", "touches"),
    [
        (call("1", "Read", file_path="/a.py"), Touched(("/a.py",))),
        (call("1", "Edit", file_path="/a.py", old_string="x", new_string="y"), Touched((), ("/a.py",))),
        (call("1", "grep", pattern="x", path="a.py"), Touched()),
        (call("1", "shell", command=["bash", "-lc", "sed -n 1,9p a.py"]), Touched(("a.py",))),
        (call("1", "shell", command=["cat", "a.py"]), Touched(("a.py",))),
        (
            Part(Kind.CALL, tool="apply_patch", arguments="*** Begin Patch\n*** Update File: a.py\n@@\n-x\n+y\n"),
            Touched((), ("a.py",)),
        ),
        (
            call("1", "exec_command", cmd="apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: a.py\nEOF"),
            Touched((), ("a.py",)),
        ),
        (call("1", "delimiter", action="start", name="a.py"), Touched()),
    ],
)
def test_tools_show_and_edit_files(part: Part, touches: Touched) -> None:
    assert touched_files(part) == touches


# Re-reading


def reread_story() -> Story:
    """A result is needed again and again, with another result after each need."""
    story = Story().user("go").says(call("r", "ls")).result("parse_header parse_footer", "r")
    for number in range(3):
        story.says("parse_header", call(f"n{number}", "ls")).result("nothing", f"n{number}")
    return story.says("parse_footer")


def test_what_is_gone_is_fetched_once_while_the_copy_would_stand() -> None:
    story = reread_story()  # results: 2, 5, 8, 11
    views = [[0], [0], [0, 4, 5], [0, 4, 5, 7, 8], [0, 4, 5, 7, 8, 10, 11]]
    assert [loss.reread for loss in observe_views(story, *views)] == [
        Reread(), Reread(1, 10), Reread(), Reread(), Reread()
    ]  # fmt: skip


def test_a_copy_stands_until_a_result_follows_it() -> None:
    story = Story().user("go").says(call("r", "ls")).result("parse_header", "r")
    story.says("parse_header", call("n", "ls")).says("parse_header").result("nothing", "n")
    assert [loss.reread.results for loss in observe_views(story, [0], [0], [0])] == [0, 1, 0]


def test_a_copy_goes_with_the_first_result_after_it() -> None:
    story = reread_story()
    views = [[0], [0], [0, 4, 5], [0, 7, 8], [0, 7, 8, 10, 11]]
    # Fetched at call 1, gone with item 5 at call 3, fetched again; that copy goes with item 11.
    assert [loss.reread.results for loss in observe_views(story, *views)] == [0, 1, 0, 1, 0]


def test_a_summary_without_a_text_spares_no_fetch() -> None:
    assert observe_views(reread_story(), [0], [0, Substitute("", 50)])[-1].reread == Reread(1, 10)
    assert observe_views(edit_story(), [0], [0], [0, Substitute("", 50)])[-1].reread == Reread(1, 10)


# Faults


def test_a_call_that_is_made_again_is_a_fault_if_its_result_has_left() -> None:
    story = Story().user("go").says(call("a", "Read", path="x", limit=3)).result("one", "a")
    story.says(call("b", "read", limit=3, path="x"), call("c", "read", path="y"))
    story.result("two", "b").result("three", "c")
    story.says(call("d", "read", path="x", limit=3)).result("four", "d").says("done")
    at_hand, cleared = [0, 1, 2], [0, 1, Substitute("gone", 1, 2), 3, 4, 5, 6]
    repeats = [(loss.repeats, loss.faults) for loss in observe_views(story, [0], at_hand, cleared, [0])]
    # The second read is of what the view holds; the third is of the second's result, which it holds too.
    assert repeats == [(0, 0), (1, 0), (1, 0), (0, 0)]
    repeats = [(loss.repeats, loss.faults) for loss in observe_views(story, [0], cleared[:3], [0, 1, 2], [0])]
    assert repeats == [(0, 0), (1, 1), (1, 1), (0, 0)]
    loss = story.loss()
    for number in range(4):
        loss.observe(number, [0])
    assert (loss.totals().repeats, loss.totals().faults) == (2, 2)


def test_edits_marks_and_calls_without_a_result_are_no_faults() -> None:
    story = Story().user("go")
    for number in range(2):
        story.says(
            call(f"e{number}", "edit", path="x", new="y"),
            call(f"d{number}", "delimiter", action="end"),
            call(f"o{number}", "wait"),
        ).result("done", f"e{number}").result("done", f"d{number}")
    assert [loss.repeats for loss in observe_views(story, [0], [0])] == [0, 0]


# User turns and pairs


def test_user_turns_must_stand_unchanged() -> None:
    story = Story().user("one").says("a").user("two").says("b").says("c")
    loss = story.loss()
    views: list[list[Slot]] = [[0], [0, 2], [Substitute("one", 1, 0), 1, 2, 3]]
    told = []
    for call, view in enumerate(views):
        loss.observe(call, view)
        totals = loss.totals()
        told.append((totals.user_turns, totals.user_turns_lost, totals.user_turns_intact))
    assert told == [(1, 0, 1.0), (2, 0, 1.0), (2, 1, 0.5)]


# The run as a whole


def test_totals_add_up_and_shares_without_a_whole_are_one() -> None:
    assert LossTotals().reference_recall == LossTotals().edit_grounding == LossTotals().user_turns_intact == 1.0
    both = LossTotals(uses=4, in_view=1, reread=Reread(1, 5)) + LossTotals(uses=4, in_view=3)
    assert (both.uses, both.reference_recall, both.reread) == (8, 0.5, Reread(1, 5))


WORDS = ["some_name", "OtherName", "src/a_file.py", "plain", "dir/b_file.py"]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=3).map(" ".join)


@st.composite
def sessions(draw: st.DrawFn) -> RecordedSession:
    story = Story()
    waiting: list[str] = []
    for number in range(draw(st.integers(1, 14))):
        what = draw(st.sampled_from(["user", "text", "read", "edit", "result", "result"]))
        if what == "user":
            story.user(draw(TEXTS))
        elif what == "text":
            story.says(draw(TEXTS))
        elif what == "result":
            if waiting:
                answered = waiting.pop(draw(st.integers(0, len(waiting) - 1)))
                story.result(draw(TEXTS), answered, failed=draw(st.booleans()))
        else:
            paths = draw(st.lists(st.sampled_from(["src/a_file.py", "dir/b_file.py"]), min_size=1, max_size=2))
            ids = [f"{number}-{place}" for place in range(len(paths))]
            story.says(*(call(each, what, path=path) for each, path in zip(ids, paths, strict=True)))
            waiting += ids
    return story.session


@st.composite
def views(draw: st.DrawFn, before: int, last: list[Slot]) -> list[Slot]:
    """A view that goes on from the last one, or a new one."""
    if draw(st.booleans()):
        highest = max((slot for slot in last if isinstance(slot, int)), default=-1)
        return [*last, *range(highest + 1, before)]
    slots: list[Slot] = []
    for item in range(before):
        if draw(st.booleans()):
            shortened = draw(st.integers(0, 4)) == 0
            slots.append(Substitute(draw(TEXTS), 3, item) if shortened else item)
    if draw(st.booleans()):
        slots.insert(draw(st.integers(0, len(slots))), Substitute(draw(st.one_of(TEXTS, st.just(""))), 5))
    return slots


@times(3)
@given(st.data())
def test_the_figures_are_those_of_a_naive_reading(data: st.DataObject) -> None:
    session = data.draw(sessions())
    tokens = list(range(1, len(session.parts) + 1))
    loss, naive = Loss(Index(session, tokens)), Naive(session, tokens)
    view: list[Slot] = []
    total = LossTotals()
    for number, each in enumerate(session.calls):
        view = data.draw(views(each.first, view))
        found, expected = loss.observe(number, view), naive.observe(number, view)
        got = {name: getattr(found, name) for name in expected}
        got["reread"] = (found.reread.results, found.reread.tokens)
        assert got == expected
        assert loss.totals().user_turns_lost == len(naive.lost)
        total += LossTotals(uses=found.uses, in_view=found.in_view, edits=found.edits, grounded=found.grounded)
    totals = loss.totals()
    assert (totals.uses, totals.in_view, totals.edits, totals.grounded) == (
        total.uses, total.in_view, total.edits, total.grounded
    )  # fmt: skip
    assert totals.in_view <= totals.in_view_at_best <= totals.in_view + naive.unknown
    assert (totals.in_view_at_best > totals.in_view) == (naive.unknown > 0)


# Real sessions


def recorded_paths() -> list[Any]:
    files = [path for name in ("claude-code", "codex", "pi") for path in sorted((SESSIONS / name).glob("*.jsonl"))]
    if not files:
        reason = "no recorded sessions: ../shared/sessions (relative to the repository) is not there"
        return [pytest.param(None, marks=pytest.mark.skip(reason=reason))]
    files.append(SESSIONS / "terminal-bench-2")
    first = [pytest.param(path, id=path.name) for path in files[:2]]
    return first + [pytest.param(path, id=path.name, marks=pytest.mark.wide) for path in files[2:]]


@pytest.mark.parametrize("path", recorded_paths())
def test_without_eviction_nothing_is_lost(path: Path) -> None:
    found = read_session(path)
    session = join(found, "all") if len(found) > 1 else found[0]
    loss = Loss(Index(session, [1] * len(session.parts)))
    for number, each in enumerate(session.calls):
        loss.observe(number, list(range(each.first)))
    totals = loss.totals()
    assert totals.uses > 100
    assert (totals.reference_recall, totals.edit_grounding, totals.user_turns_intact) == (1.0, 1.0, 1.0)
    assert (totals.reread, totals.invalid_pairs) == (Reread(), 0)
