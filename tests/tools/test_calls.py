"""Tool calls of many harnesses are judged by their names and arguments."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wane.core import ToolClass
from wane.tools import Activity, class_of_call, judge_call

PATCH = "*** Begin Patch\n*** Update File: src/a.py\n@@\n-x\n+y\n*** Add File: b.py\n+z\n*** End Patch"


@pytest.mark.parametrize(
    ("tool", "arguments", "activity", "reads", "writes"),
    [
        ("Read", {"file_path": "/a/b.py"}, Activity.EXPLORE, ("/a/b.py",), ()),
        ("read_file", {"path": "b.py"}, Activity.EXPLORE, ("b.py",), ()),
        ("Grep", {"pattern": "x", "path": "/a"}, Activity.EXPLORE, (), ()),
        ("Grep", {"pattern": "x", "path": "/a/b.py"}, Activity.EXPLORE, ("/a/b.py",), ()),
        ("WebFetch", {"url": "https://example.com"}, Activity.EXPLORE, (), ()),
        ("Task", {"description": "look around"}, Activity.EXPLORE, (), ()),
        ("Edit", {"file_path": "/a/b.py", "old_string": "x"}, Activity.ACT, (), ("/a/b.py",)),
        ("write", {"path": "c.py", "content": "x"}, Activity.ACT, (), ("c.py",)),
        ("apply_patch", {"input": PATCH}, Activity.ACT, (), ("src/a.py", "b.py")),
        ("apply_patch", PATCH, Activity.ACT, (), ("src/a.py", "b.py")),
        ("str_replace_editor", {"command": "view", "path": "a.py"}, Activity.EXPLORE, ("a.py",), ()),
        ("str_replace_based_edit_tool", {"command": "insert", "path": "a.py"}, Activity.ACT, (), ("a.py",)),
        ("TodoWrite", {"todos": []}, Activity.NEUTRAL, (), ()),
        ("write_stdin", {"session_id": 1, "chars": ""}, Activity.NEUTRAL, (), ()),
        ("mcp__linear-server__list_issues", {}, Activity.EXPLORE, (), ()),
        ("mcp__github__create_issue", {"title": "x"}, Activity.ACT, (), ()),
        ("functions.bash", {"command": "ls"}, Activity.EXPLORE, (), ()),
        ("weather", {"city": "Paris"}, Activity.EXPLORE, (), ()),
        ("Bash", {"command": "pytest"}, Activity.VERIFY, (), ()),
        ("exec_command", {"cmd": "cat a.py", "workdir": "/r"}, Activity.EXPLORE, ("/r/a.py",), ()),
        ("shell", {"command": ["bash", "-lc", "sed -i s/a/b/ x.py"], "workdir": "/r"}, Activity.ACT, (), ("/r/x.py",)),
        ("shell", {"command": ["apply_patch", PATCH]}, Activity.ACT, (), ("src/a.py", "b.py")),
        ("local_shell", {"command": ["ls", "-l", "it's"]}, Activity.EXPLORE, (), ()),
        ("run_terminal_cmd", {"command": "git push"}, Activity.ACT, (), ()),
        ("container.exec", {"cmd": ["bash", "-lc", "git push"]}, Activity.ACT, (), ()),
        ("shell_command", {"command": 7}, Activity.NEUTRAL, (), ()),
        ("bash", {}, Activity.NEUTRAL, (), ()),
    ],
)
def test_calls(
    tool: str, arguments: object, activity: Activity, reads: tuple[str, ...], writes: tuple[str, ...]
) -> None:
    raw = arguments if isinstance(arguments, str) else json.dumps(arguments)
    judgement = judge_call(tool, raw)
    assert (judgement.activity, judgement.reads, judgement.writes) == (activity, reads, writes)


@given(
    st.sampled_from(["bash", "read", "edit", "apply_patch", "shell", "x", "", "__", "."]),
    st.one_of(
        st.none(),
        st.text(max_size=20),
        st.recursive(
            st.none() | st.text(max_size=5) | st.integers(),
            lambda c: (
                st.lists(c, max_size=3)
                | st.dictionaries(st.sampled_from(["command", "path", "files", "input"]), c, max_size=3)
            ),
            max_leaves=6,
        ).map(json.dumps),
    ),
)
def test_no_arguments_are_too_odd(tool: str, arguments: str | None) -> None:
    judgement = judge_call(tool, arguments)
    assert judgement.activity in Activity
    assert all(isinstance(path, str) for path in judgement.files)


@pytest.mark.parametrize(
    "command",
    [
        "rg -n TODO src",
        "grep -rn foo . 2>/dev/null | head -20",
        "cd src && find . -name '*.py' -not -path './x/*' | sort | wc -l",
        "ls -la; git ls-files | grep test",
        "find . -name '*.ts' -exec grep -l foo {} \\;",
        "find . -name '*.ts' | xargs grep -n foo",
        "git -C repo grep foo",
        "bash -lc 'rg foo | head'",
    ],
)
def test_a_shell_call_that_only_searches_is_bulk(command: str) -> None:
    assert class_of_call("bash", json.dumps({"command": command})) is ToolClass.BULK
    assert class_of_call("shell", json.dumps({"command": ["bash", "-lc", command]})) is ToolClass.BULK


@pytest.mark.parametrize(
    "command",
    [
        "cat a.py",
        "rg foo; cat a.py",
        "find . -name '*.py' | xargs cat",
        "find . -name '*.py' -exec cat {} +",
        "find . -name '*.pyc' -delete",
        "rg foo > found.txt",
        "grep -n foo a.py && pytest",
        "git status && git diff",
        "echo hello",
        "",
    ],
)
def test_a_shell_call_that_does_more_is_none(command: str) -> None:
    assert class_of_call("bash", json.dumps({"command": command})) is None


@pytest.mark.parametrize("arguments", [None, "", "{}", "make", "[1]", '{"command": 7}'])
def test_a_call_that_is_no_shell_or_has_no_command_tells_no_class(arguments: str | None) -> None:
    assert class_of_call("grep", '{"command": "rg x"}') is None
    assert class_of_call("bash", arguments) is None
