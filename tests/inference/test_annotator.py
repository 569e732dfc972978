"""Episodes are inferred by the rules of `docs/lab/inference.md`."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import histories
from wane.core import DELIMITER, ContextWindow, EpisodeType, Item, Kind, Mark
from wane.formats.message_format import Part
from wane.inference import Annotator, EpisodeBounds

SMALL = EpisodeBounds(episode=200, drift_calls=2, drift_tokens=60, dependencies=100)


class Story:
    """A session told in few words."""

    def __init__(self, limits: EpisodeBounds = SMALL) -> None:
        self.annotator = Annotator(limits)
        self.marks: list[str] = []
        self.starts: dict[str, Mark] = {}
        self.ends: dict[str, Mark] = {}
        self._calls = 0

    def add(self, part: Part, tokens: int = 1) -> Story:
        item = Item(part.kind, tokens, part.call_id, part.tool, part.arguments)
        for mark in self.annotator.add(item, part):
            short = mark.name.partition(":")[0]
            (self.starts if mark.action == "start" else self.ends)[short] = mark
            self.marks.append(f"{'+' if mark.action == 'start' else '-'}{short}")
        return self

    def user(self) -> Story:
        return self.add(Part(Kind.USER, "go on"))

    def call(self, tool: str, tokens: int = 10, **arguments: str) -> Story:
        self._calls += 1
        call_id = f"c{self._calls}"
        self.add(Part(Kind.CALL, call_id=call_id, tool=tool, arguments=json.dumps(arguments)))
        return self.add(Part(Kind.RESULT, "", call_id=call_id), tokens)

    def read(self, path: str, tokens: int = 10) -> Story:
        return self.call("read", tokens, path=path)

    def edit(self, path: str) -> Story:
        return self.call("edit", path=path)

    def run(self, command: str, tokens: int = 10) -> Story:
        return self.call("bash", tokens, command=command)

    def needs(self, name: str) -> list[str]:
        return [dependency.partition(":")[0] for dependency in self.starts[name].dependencies]


def test_reading_explores_and_editing_acts_on_it() -> None:
    story = Story().user().read("a.py").run("grep -n x b.py").edit("a.py").run("pytest").user()
    assert story.marks == ["+reading-1", "-reading-1", "+work-2", "-work-2"]
    assert story.starts["reading-1"] == Mark("start", "reading-1:a.py", EpisodeType.EXPL)
    assert story.starts["work-2"] == Mark("start", "work-2:a.py", EpisodeType.ACT, ("reading-1:a.py",))
    assert story.ends["reading-1"].description == "(inferred) looked at: a.py, grep x"
    assert story.ends["work-2"].description is None


def test_what_ran_or_was_reviewed_changes_nothing_of_what_the_agent_is_at() -> None:
    story = Story().read("a.py").run("pytest").run("git status").read("b.py")
    assert story.marks == ["+reading-1"]
    story.edit("a.py").run("make").run("git diff").call("TodoWrite").edit("a.py")
    assert story.marks == ["+reading-1", "-reading-1", "+work-2"]


def test_a_run_after_the_users_turn_acts_and_a_review_explores() -> None:
    assert Story().user().run("pytest").marks == ["+work-1"]
    assert Story().user().run("git diff").marks == ["+reading-1"]
    assert Story().user().call("TodoWrite").run("sleep 1").marks == []


def test_an_entry_of_the_agents_plan_names_episodes_until_the_users_next_turn() -> None:
    story = Story().call("TaskCreate", subject="Fix the parser").read("a.py")
    story.call("TaskUpdate", taskId="1", status="in_progress").edit("a.py").user().edit("a.py")
    assert story.marks == ["+reading-1", "-reading-1", "+work-2", "-work-2", "+work-3"]
    names = [story.starts[name].name for name in ("reading-1", "work-2", "work-3")]
    assert names == ["reading-1:a.py", "work-2:Fix the parser", "work-3:a.py"]


def test_episodes_of_one_entry_say_in_their_names_where_they_part() -> None:
    story = Story().call("TaskCreate", subject="Fix the parser").read("a.py", 70)
    story.call("TaskUpdate", taskId="1", status="in_progress").edit("a.py").read("b.py", 70).read("c.py").edit("b.py")
    names = [mark.name for mark in story.starts.values()]
    assert names == [
        "reading-1:a.py",
        "work-2:Fix the parser",
        "reading-3:c.py: Fix the parser",
        "work-4:b.py: Fix the parser",
    ]


def test_an_act_bears_a_look_aside() -> None:
    story = Story().read("a.py").edit("a.py").read("b.py").run("ls").edit("a.py").read("c.py").read("a.py").edit("a.py")
    assert story.marks == ["+reading-1", "-reading-1", "+work-2"]


def test_an_act_ends_when_the_agent_looks_elsewhere_again_and_again() -> None:
    story = Story().edit("a.py").read("b.py").read("a.py").read("c.py").read("d.py").edit("d.py")
    assert story.marks == ["+work-1", "-work-1", "+reading-2", "-reading-2", "+work-3"]
    assert story.starts["reading-2"].name == "reading-2:d.py"


def test_an_act_ends_when_the_agent_looks_elsewhere_at_length() -> None:
    story = Story().edit("a.py").read("b.py", tokens=70).read("c.py")
    assert story.marks == ["+work-1", "-work-1", "+reading-2"]


def test_an_edit_that_builds_on_another_exploration_is_another_act() -> None:
    story = Story().read("a.py").edit("a.py").read("b.py", 70).read("c.py").edit("b.py").edit("c.py").edit("a.py")
    assert story.marks[-4:] == ["-reading-3", "+work-4", "-work-4", "+work-5"]
    assert story.needs("work-4") == ["reading-3"]
    assert story.needs("work-5") == ["reading-1"]


def test_files_are_known_by_their_ends() -> None:
    story = Story().read("/repo/src/a.py").edit("x.py").user().run("cd src && sed -i s/a/b/ a.py")
    assert story.needs("work-3") == ["reading-1"]


def test_an_act_depends_on_all_that_was_explored_since_the_last() -> None:
    story = Story().edit("z.py").user().read("a.py").user().read("b.py").user().edit("new.py")
    assert story.needs("work-4") == ["reading-2", "reading-3"]


def test_an_act_with_nothing_new_goes_on_with_what_the_last_one_had() -> None:
    story = Story().read("a.py").edit("a.py").user().edit("new.py").user().run("git push")
    assert [story.needs(name) for name in ("work-2", "work-3", "work-4")] == [["reading-1"]] * 3


def test_dependencies_are_not_too_large_together() -> None:
    story = Story().read("a.py", 30).user().read("b.py", 60).user().read("c.py", 60).user().edit("a.py")
    assert story.needs("work-4") == ["reading-1", "reading-3"]
    story = Story().read("a.py", 500).user().edit("b.py")
    assert story.needs("work-2") == ["reading-1"]


def test_a_long_episode_goes_on_as_another() -> None:
    story = Story().read("a.py", 150).read("b.py", 150).call("TodoWrite").read("c.py").edit("b.py")
    assert story.marks == ["+reading-1", "-reading-1", "+reading-2", "-reading-2", "+work-3"]
    story.run("make", 300).run("make")
    assert story.marks[-2:] == ["-work-3", "+work-4"]
    assert story.needs("work-4") == story.needs("work-3") == ["reading-1"]


def test_a_late_result_counts_for_the_episode_of_its_call() -> None:
    story = Story()
    story.add(Part(Kind.CALL, call_id="late", tool="read", arguments='{"path": "a"}'))
    story.edit("b.py").add(Part(Kind.RESULT, call_id="late"), 500)
    assert story.edit("b.py").marks == ["+reading-1", "-reading-1", "+work-2"]


def test_prose_opens_nothing() -> None:
    story = Story().add(Part(Kind.SYSTEM, "x")).user().add(Part(Kind.REASONING, "x")).add(Part(Kind.TEXT, "x")).user()
    assert story.marks == []


def test_the_agent_is_the_authority() -> None:
    story = Story().read("a.py")
    story.annotator.stop()
    assert story.annotator.stopped
    assert story.edit("a.py").user().read("b.py").marks == ["+reading-1"]


@pytest.mark.parametrize("tool", ["", "\ud800", "a" * 500, "x\n\ny"])
def test_names_are_short_and_in_one_line(tool: str) -> None:
    (mark,) = Story().call(tool).starts.values()
    assert len(mark.name) < 50
    assert mark.name.isprintable()


def parts_of(items: Iterable[Item], commands: list[str]) -> list[Part]:
    """Content for random items: shell commands in place of what their calls said."""
    out = []
    for index, item in enumerate(items):
        arguments = item.arguments
        if item.kind is Kind.CALL and item.tool in ("bash", "read"):
            arguments = json.dumps({"command": commands[index % len(commands)], "path": f"f{index % 4}.py"})
        out.append(Part(item.kind, "", item.call_id, item.tool, arguments))
    return out


COMMANDS = st.lists(
    st.sampled_from(("ls", "cat f1.py", "pytest", "sed -i s/a/b/ f2.py", "git diff", "echo x > f3.py", "sleep 1")),
    min_size=1,
    max_size=7,
)


@given(histories(), COMMANDS)
def test_every_window_takes_every_mark(items: list[Item], commands: list[str]) -> None:
    window, annotator = ContextWindow(), Annotator(SMALL)
    annotated = False
    for item, part in zip(items, parts_of(items, commands), strict=True):
        added = annotator.add_to(window, item, part)
        annotated = annotated or bool(added.verdict and added.verdict.accepted)
        assert annotator.stopped == annotated
        if added.opened is not None and added.opened.inferred:
            assert not annotated
            assert item.kind is Kind.CALL
            assert item.tool != DELIMITER


@given(histories(), COMMANDS)
def test_what_is_accepted_does_not_depend_on_inference(items: list[Item], commands: list[str]) -> None:
    plain, window, annotator = ContextWindow(), ContextWindow(), Annotator(SMALL)
    for item, part in zip(items, parts_of(items, commands), strict=True):
        assert plain.add(item).verdict == annotator.add_to(window, item, part).verdict
