from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from tests.agent.conftest import git
from wane.agent.approval.permission_rules import RememberedRules, Rule
from wane.agent.approval.permissions import AnswerScope, Approval, ApprovalRequest, Effect, PartVerdict, Permissions
from wane.agent.approval.readonly import Surroundings
from wane.agent.config import project_of
from wane.agent.repositories import RepositoryGuard
from wane.core.errors import ConfigError


class Asked:
    """Answers from a list and keeps the questions."""

    def __init__(self, *answers: Approval) -> None:
        self.answers = list(answers)
        self.requests: list[ApprovalRequest] = []

    async def __call__(self, request: ApprovalRequest) -> Approval:
        self.requests.append(request)
        return self.answers.pop(0)

    @property
    def parts(self) -> list[str]:
        return [request.part or request.subject for request in self.requests]


def surroundings(directory: Path) -> Surroundings:
    return Surroundings(directory, os.environ, RepositoryGuard(directory, os.environ).opens)


def judge_lines(permissions: Permissions, *lines: str) -> list[bool]:
    async def all_of_them() -> list[bool]:
        return [await permissions.command(line) is None for line in lines]

    return asyncio.run(all_of_them())


YES, NO = Approval(True), Approval(False)
ALWAYS, NEVER = Approval(True, AnswerScope.SESSION), Approval(False, AnswerScope.SESSION)
EACH = Approval(False, AnswerScope.EACH)


def test_always_covers_a_program_and_its_sub_command_and_nothing_else() -> None:
    asked = Asked(ALWAYS, NO, YES, NO)
    permissions = Permissions(asked)
    assert judge_lines(permissions, "cat x && ls", "ls -la; cat y", "rm x", "git log", "git push") == [
        True, True, False, True, False,
    ]  # fmt: skip
    assert asked.parts == ["cat x && ls", "rm x", "git log", "git push"]
    assert asked.requests[0].rules == ("cat *", "ls *")


def test_a_line_of_several_parts_is_asked_for_once_with_a_verdict_on_each(tmp_path: Path) -> None:
    asked = Asked(YES, NO)
    (tmp_path / "src").mkdir()
    permissions = Permissions(asked, allow=[Rule("git status *")], surroundings=surroundings(tmp_path))
    line = "make test | tee log; git status; echo x | xargs rm"
    assert judge_lines(permissions, line, line) == [True, False], "yes holds once"
    assert asked.requests[0] == asked.requests[1]
    request = asked.requests[0]
    assert request.parts == (
        PartVerdict("make test", rule="make test *"),
        PartVerdict("tee log"),
        PartVerdict("git status", "git status *"),
        PartVerdict("echo x", "it only reads"),
        PartVerdict("xargs rm"),
    )
    assert request.unsettled == 3
    assert request.rules == (), "what the input decides is asked for each time, and the line with it"


def test_always_for_a_whole_line_leaves_out_what_no_rule_can_cover() -> None:
    asked = Asked(ALWAYS, YES)
    permissions = Permissions(asked)
    assert judge_lines(permissions, "make; xargs rm", "make; xargs rm") == [True, True]
    assert asked.requests[1].parts == (PartVerdict("make", "make *"), PartVerdict("xargs rm"))
    assert asked.requests[1].unsettled == 1


def test_each_part_can_be_asked_for_by_itself() -> None:
    asked = Asked(EACH, YES, NO, EACH, ALWAYS)
    assert judge_lines(Permissions(asked), "a && b && c", "ls a; ls b") == [False, True]
    assert asked.parts == ["a && b && c", "a", "b", "ls a; ls b", "ls a"], "a refusal ends it; always covers the rest"
    assert [request.number for request in asked.requests[1:3]] == [(1, 3), (2, 3)]


def test_what_has_no_parts_cannot_be_allowed_by_its_parts() -> None:
    permissions = Permissions(Asked(EACH, EACH))
    assert asyncio.run(permissions.tool("deploy", "{}")) is not None
    assert asyncio.run(permissions.tool("deploy", "{}")) is not None, "and nothing is remembered"


def test_the_rules_in_force_are_told_with_their_sources(tmp_path: Path) -> None:
    remembered = RememberedRules(tmp_path / "approvals.json", tmp_path)
    remembered.add(Rule("make *"), allowed=True)
    asked = Asked(ALWAYS, NEVER, Approval(True, AnswerScope.EVERYTHING))
    permissions = Permissions(asked, allow=[Rule("git diff *")], deny=[Rule("rm *")], remembered=remembered)
    assert judge_lines(permissions, "ls", "git push", "cat x", "cat y") == [True, False, True, True]
    until_the_end = "an answer, until the session ends"
    assert [(rule.allows, rule.text, rule.source) for rule in permissions.in_force] == [
        (False, "rm *", "settings or options"),
        (False, "git push *", until_the_end),
        (True, "make *", "this project, for good"),
        (True, "git diff *", "settings or options"),
        (True, "ls *", until_the_end),
        (True, "all commands", until_the_end),
    ]


def test_never_is_not_asked_again() -> None:
    asked = Asked(NEVER)
    assert judge_lines(Permissions(asked), "git push", "git push -f", "git push && ls") == [False, False, False]
    assert len(asked.requests) == 1


def test_this_session_covers_all_commands_and_no_file_changes() -> None:
    asked = Asked(Approval(True, AnswerScope.EVERYTHING), NO)
    permissions = Permissions(asked)
    assert judge_lines(permissions, "ls", "rm x", "echo 'open") == [True, True, True]
    assert asyncio.run(permissions.change("a", "")) is not None
    assert [request.effect for request in asked.requests] == [Effect.COMMAND, Effect.WRITE]


def test_what_cannot_be_read_is_asked_for_whole_and_not_remembered() -> None:
    asked = Asked(ALWAYS, YES)
    line = "[[ a ]] && ls"
    assert judge_lines(Permissions(asked, allow=[Rule("ls *")]), line, line) == [True, True]
    assert asked.parts == [line, line]
    assert [request.rules for request in asked.requests] == [(), ()]


def test_a_rule_that_denies_holds_with_yolo() -> None:
    asked = Asked(NO)
    permissions = Permissions(asked, yolo=True, deny=[Rule("rm *"), Rule("edit:a/*"), Rule("mcp:x_*")])
    assert judge_lines(permissions, "ls", "ls && sudo rm x", "echo 'open") == [True, False, False]
    assert asked.parts == ["echo 'open"], "what cannot be read might be what is denied"

    async def others() -> list[str | None]:
        changes = [await permissions.change(path, "") for path in ("a/b", "c")]
        return changes + [await permissions.tool(name, "{}") for name in ("x_a", "y_a")]

    assert [reason is None for reason in asyncio.run(others())] == [False, True, False, True]


def test_changing_the_directory_is_asked_for_only_where_it_leads_out(tmp_path: Path) -> None:
    here = tmp_path / "here"
    (here / "src" / "a").mkdir(parents=True)
    (here / "out").symlink_to(tmp_path)
    lines = ("cd src/a && true", "cd src && cd .. && ls", "cd ..", "cd /tmp", "cd $x", "cd out", "cd", "cd -")
    refusals = Asked(*[NO] * 6)
    permissions = Permissions(refusals, surroundings=surroundings(here))
    assert judge_lines(permissions, *lines) == [True, True, *[False] * 6]


def test_a_file_and_a_tool_are_remembered_by_name() -> None:
    permissions = Permissions(Asked(ALWAYS, NO, ALWAYS, NO))

    async def script() -> list[bool]:
        changes = [await permissions.change(path, "") for path in ("a[1].py", "a[1].py", "a1.py")]
        calls = [await permissions.tool(name, "{}") for name in ("x_search", "x_search", "x_delete")]
        return [refusal is None for refusal in changes + calls]

    assert asyncio.run(script()) == [True, True, False, True, True, False]


def test_what_is_remembered_for_a_project_holds_in_later_sessions_there_alone(tmp_path: Path) -> None:
    file, here, there = tmp_path / "config" / "approvals.json", tmp_path / "here", tmp_path / "there"
    asked = Asked(Approval(True, AnswerScope.PROJECT), Approval(False, AnswerScope.PROJECT))
    assert judge_lines(Permissions(asked, remembered=RememberedRules(file, here)), "ls", "git push") == [True, False]
    later = Asked(NO)
    assert judge_lines(Permissions(later, remembered=RememberedRules(file, here)), "ls -a", "git push") == [True, False]
    assert later.requests == []
    assert judge_lines(Permissions(later, remembered=RememberedRules(file, there)), "ls") == [False]
    remembered = RememberedRules(file, here)
    remembered.forget(Rule("ls *"))
    assert (RememberedRules(file, here).allow, RememberedRules(file, here).deny) == ([], [Rule("git push *")])


def test_two_sessions_do_not_lose_each_others_answers(tmp_path: Path) -> None:
    file = tmp_path / "approvals.json"
    one, two = RememberedRules(file, tmp_path), RememberedRules(file, tmp_path)
    one.add(Rule("ls *"), allowed=True)
    two.add(Rule("git *"), allowed=True)
    assert json.loads(file.read_text()) == {str(tmp_path): {"allow": ["ls *", "git *"], "deny": []}}


def test_an_answer_that_cannot_be_kept_holds_for_the_session(tmp_path: Path) -> None:
    told: list[str] = []
    remembered = RememberedRules(tmp_path / "folder" / "approvals.json", tmp_path)
    (tmp_path / "folder").touch()
    asked = Asked(Approval(True, AnswerScope.PROJECT))
    permissions = Permissions(asked, remembered=remembered, warn=told.append)
    assert judge_lines(permissions, "ls", "ls") == [True, True]
    assert len(told) == 1
    assert "this session only" in told[0]


@pytest.mark.parametrize("content", ["[", "[]", '{"/x": {"allow": [3]}}', '{"/x": {"permit": []}}'])
def test_a_damaged_file_is_told_by_name(tmp_path: Path, content: str) -> None:
    file = tmp_path / "approvals.json"
    file.write_text(content)
    with pytest.raises(ConfigError, match=r"approvals\.json"):
        RememberedRules(file, tmp_path)


def test_the_project_is_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a" / ".git").mkdir(parents=True)
    (tmp_path / "a" / ".git" / "HEAD").touch()
    (tmp_path / "a" / "b").mkdir()
    assert project_of(tmp_path / "a" / "b") == tmp_path / "a"
    assert project_of(tmp_path) == tmp_path
    monkeypatch.setenv("HOME", str(tmp_path / "a" / "home"))
    assert project_of(tmp_path / "a" / "b") == tmp_path / "a" / "b", "a repository that holds the home is no project"


@pytest.mark.parametrize(
    ("line", "free"),
    [
        ("ls -la && git status && cat README.md | head -3", True),
        ("cd sub && grep -rn 'a.*b' . 2>/dev/null | sort | uniq -c", True),
        ("find . -name '*.py' -type f; sed -n '1,20p' README.md; git log --oneline -5; git diff HEAD~1..main", True),
        ("git branch -a; git stash list; echo done", True),
        ("cat ../secret", False),
        ("cat /etc/passwd", False),
        ("cat ~/.ssh/id_rsa", False),
        ("cat out", False),  # a link out of the directory
        ("cd sub && cat out", False),
        ("cd a && cd sub && cat out", False),
        ("cat o*", False),
        ("cat R*", True),
        ("echo *", True),
        ("ls *", False),  # it would list what the link leads to
        ("cat < README.md", True),
        ("cat < out", False),
        ("diff -r a sub", False),
        ("diff README.md a/missing.md", True),
        ("ls -l -- out", False),
        ("grep -f out README.md", False),
        ("grep -rnfout README.md", False),
        ("grep -e a out", False),
        ("ls {a,out}", False),
        ("ls ~", False),
        ("ls & ls", False),
        ("while true; do ls; done", False),
        ("for f in README.md a; do ls $f; done", True),
        ("for f in README.md out; do cat $f; done", False),
        ("for f in a; do cd $f; cat README.md; done", False),
        ("for PATH in a; do ls; done", False),
        ("PATH=a; ls", False),
        ("alias ls=rm; ls", False),
        ("sort -- -o", True),
        ("sort --outp=x README.md", False),
        ("printf -v x y", False),
        ("test -v x", False),
        ("awk '{print $1}' README.md", True),
        ("awk 'BEGIN{system(\"true\")}'", False),
        ("awk '{print > \"x\"}' README.md", False),
        ("sed -n 'w x' README.md", False),
        ("sed 's/a/b/w x' README.md", False),
        ("jq .a README.md", True),
        ("jq env README.md", False),
        ('echo "$(cat README.md)"', True),
        ("echo $(cat README.md)", False),
        ('cat "$(echo README.md)"', False),
        ("echo $SECRET", False),
        ("make --version; python3 --version", True),
        ("nosuchprogram --version", False),
        ("ls <<'EOF'\n$x\nEOF", False),
        ("grep -fout .", False),
        ("grep -R key .", False),
        ("cat $FILE", False),
        ("cat $(rm x)", False),
        ("FOO=1 ls", False),
        ("./ls", False),
        ("ls > files", False),
        ("find . -delete", False),
        ("find . -exec rm {} +", False),
        ("rg --pre ./run x", False),
        ("sort -o README.md x", False),
        ("uniq x README.md", False),
        ("sed -n '1e rm x' README.md", False),
        ("sed -i s/a/b/ README.md", False),
        ("git diff --output=README.md", False),
        ("git grep -O./run x", False),
        ("git -c core.pager=./run log", False),
        ("git branch new", False),
        ("git branch --abbrev new", False),  # a branch of that name
        ("git branch --sort=-committerdate", True),
        ("set", False),
        ("ls -I out", False),  # elsewhere the option takes no value
        ("ls -I -R .", False),
        ("cut -d / -f 1 README.md", True),
        ("grep -e -x README.md; head -n -5 README.md; find . -mtime -1", True),
        ("set -e; ls", True),
        ("git --no-pager log -3; git -C sub status; git config --list; git --version", True),
        ("git -C .. status", False),
        ("git status --ignored=x; git log --format=%h", True),
        ("git log --format=%G?", False),
        ("git config a.b c", False),
        ("git reflog expire", False),
        ("git stash", False),
        ("tail -f log", False),
        ("tail +2f README.md", False),
        ("tail +f README.md", False),
        ("tail -2f README.md", False),
        ("tail -cf README.md", False),
        ("tail -lf README.md", False),
        ("tail +*", False),
        ("tail ./+2f -n 2; tail -n +2 README.md; tail -c5k README.md; head -c 2KiB -2 README.md", True),
        ("ls() { rm x; }; ls", False),
        ("find -- -delete", False),
        ("find . -- -fprint x", False),
        ("find -- -exec touch x {} +", False),
        ("""awk '/[/"]/{system(x)} x=="1"' README.md""", False),
        ("awk '/[/]/{print}' README.md", False),
        ("awk '{print \"system\"}' README.md", False),
        ("awk '{print $1} # a' README.md", False),
        ("awk '{print \"a > b\"}' README.md", False),
        ("awk '!seen[$0]++' README.md", True),
        ("tree -L 2 a", True),
        ("tree -Lo 2 x", False),
        ("tree -LR 2", False),
        ("tree -L2", False),
        ("git log --format=%+GS", False),
        ("git log --format='%-G?'", False),
        ("git log '--format=% GK'", False),
        ("git log '--format=%(trailers)'", True),
        ("git shortlog --group=format:%GS HEAD", False),
        ("git branch --sort=signature", False),
        ("git for-each-ref --sort=-signature:key", False),
        ("set -o allexport", False),
        ("set +o noglob; ls", False),
        ("printf '%n' HOME", False),
        ("printf '%5ln' HOME", False),
        ("printf '%s\\n' a", True),
        ("for f in a; do for f in README.md; do cat $f; done; done", False),
        ("for f in a; do for g in README.md; do cat $g; ls $f; done; done", True),
        ("! cd a && cat out", False),
        ("! cd a && cat README.md", False),
        ("! cd a && ls sub", True),
        ("strings @README.md", False),
        ("strings README.md", True),
        ("jq '\"$ENV.HOME\"' README.md", False),
        ("jq '.a | env | .b' README.md", False),
        ("jq -n input_filename README.md", False),
        ("unzip -l a.zip", True),
        ("unzip -l a", False),
        ("unzip -l missing.zip", False),
        ("zipinfo 'a*.zip'", False),
        ("git config --list --global", False),
        ("git config list --system", False),
        ("git config edit", False),
        ("git config user.name", True),
        ("command -v /bin/sh", False),
        ("command -v git; which git; type ls", True),
        ("hostname -f", False),
        ("hostname", True),
        ("LD_PRELOAD=./x ls", False),
        ("make", False),
    ],
)
def test_a_command_that_only_reads_below_the_directory_needs_no_answer(line: str, free: bool, tmp_path: Path) -> None:
    here = tmp_path / "project"
    (here / "a" / "sub").mkdir(parents=True)
    (here / "sub").mkdir()
    (here / "README.md").touch()
    (here / "+2f").touch()
    (here / "a.zip").touch()
    (here / "a" / "README.md").symlink_to(tmp_path / "secret")
    git(here, "init", "-q")
    for link in (here / "out", here / "sub" / "out", here / "a" / "sub" / "out"):
        link.symlink_to(tmp_path / "secret")
    asked = Asked(NO)
    assert judge_lines(Permissions(asked, surroundings=surroundings(here), sandboxed=True), line) == [free]
    assert len(asked.requests) == (not free)


def test_a_rule_that_denies_and_a_missing_directory_hold_for_commands_that_only_read_too(tmp_path: Path) -> None:
    asked = Asked(NO)
    assert judge_lines(
        Permissions(asked, deny=[Rule("cat *")], surroundings=surroundings(tmp_path)), "ls; cat x", "ls"
    ) == [False, True]
    assert not asked.requests, "a denied command is not asked for"
    assert judge_lines(Permissions(asked), "ls") == [False]


@pytest.mark.parametrize(
    ("line", "asks"),
    [
        ("ln -s ../outside q; cat q", True),
        ("cat keep; ln -s ../outside q", True),  # outside of the sandbox, with all variables
        ("cd keep.d; ln -s ../outside q", True),
        ("ln -s ../outside q; cd keep.d", True),
        ("ln -s ../outside q | cd keep.d", True),
        ("cat keep | ln -s ../outside q", True),
        ("for n in 1 2; do cat q; ln -s ../outside q; done", True),
        ("ln -s ../outside q; echo done", False),
        ("ln -s ../outside q; git status --short", True),
    ],
)
def test_a_name_is_not_read_unasked_once_another_part_may_have_changed_it(
    line: str, asks: bool, repository: Path
) -> None:
    (repository / "keep").write_text("kept")
    (repository / "keep.d").mkdir()
    asked = Asked(NO)
    permissions = Permissions(asked, allow=[Rule("ln *")], surroundings=surroundings(repository))
    assert judge_lines(permissions, line) == [not asks]


@pytest.mark.parametrize(
    ("line", "asks"),
    [
        ("make test", False),
        ("make test 2>&1 | tail -20", False),
        ("make test 2>&1 | grep -i error | sort | uniq -c | head -n 5", False),
        ("(make) && echo done; true", False),
        ("cd src && make", True),
        ("(cd src && make) && echo done; true", True),
        ('make; echo "exit: $?"', False),
        ("make | cat", False),
        ("make | grep -e a -e b", False),
        ("make; awk 'BEGIN{print 1}'", True),
        ("make; cat README.md", True),
        ("make < README.md", True),
        ("make | cat -n README.md", True),
        ("make | grep -f README.md", True),
        ("make | grep -r a", True),
        ("make | grep a README.md", True),
        ("make | sort -o README.md", True),
        ("make | sort -T src", True),
        ("make | head -5 README.md", True),
        ("make | sed -n 1p", True),
        ("make | jq .a", True),
        ("make; printf %s a", True),
        ("make; echo *", True),
        ("make; echo $HOME", True),
        ("make; ls", True),
        ("make; { cat; } < README.md", True),
        ("make | wc -l --files0-from=README.md", True),
        ("make; echo `cat README.md`", True),
        ("make; git log -1", True),
        ("make; find . -name a", True),
        ("make; set -e", True),
        ("make; test -f README.md", True),
        ("cd link && make", True),
        ("cd missing && make", True),
        ("cd .. && make", True),
        ("make && cd src", True),
        ("for d in src; do make; cd $d; done", True),
        ('make "$(pwd)"', True),
    ],
)
@pytest.mark.parametrize("sandboxed", [True, False])
def test_beside_what_a_rule_allows_stands_only_what_reads_no_file(
    line: str, asks: bool, sandboxed: bool, tmp_path: Path
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "README.md").touch()
    (tmp_path / "link").symlink_to(tmp_path / "src")
    git(tmp_path, "init", "-q")
    asked = Asked(NO)
    where = surroundings(tmp_path)
    permissions = Permissions(asked, allow=[Rule("make *")], surroundings=where, sandboxed=sandboxed)
    assert judge_lines(permissions, line) == [not asks]


def test_an_answer_about_what_only_reads_is_remembered_by_its_exact_text(tmp_path: Path) -> None:
    (tmp_path / "README.md").touch()
    asked = Asked(ALWAYS, NO)
    permissions = Permissions(asked, surroundings=surroundings(tmp_path), sandboxed=True)
    assert judge_lines(permissions, "make; cat README.md", "make all; cat README.md", "make; cat ../x") == [
        True, True, False,
    ]  # fmt: skip
    assert asked.requests[0].rules == ("make *", "=cat README.md")


@pytest.mark.parametrize(
    ("line", "asks"),
    [
        ("ls -la src; cat README.md | head -3", False),
        ("cd src && ls", False),
        ("wc -l README.md; pwd; echo done; test -f README.md", False),
        ("grep -n a README.md src", False),
        ("git status --short", True),
        ("git log --oneline -3", True),
        ("git --version", True),
        ("git diff --no-index README.md src", True),
        ("tail +2f README.md", True),
        ("tail -cf README.md", True),
        ("cat pipe", True),
        ("cat led", True),
        ("cat within", False),
        ("cat < pipe", True),
        ("cat <<EOF\n$HOME\nEOF", True),
        ("env", True),
        ("date -u; make --version; ls --version", False),
        ("ls -R", True),
        ("grep -r a .", True),
        ("grep -f README.md README.md", True),
        ("awk '{print $1}' README.md", True),
        ("sed -n 1p README.md", True),
        ("jq .a README.md", True),
        ("find . -name a", True),
        ("tree", True),
        ("strings README.md", True),
        ("unzip -l a.zip", True),
        ("printf %s a", True),
        ("set -e; ls", True),
        ("rg a README.md", True),
        ("sort README.md", True),
        ("diff README.md README.md", True),
        ("git log --format=%h", True),
        ("echo $?", False),
        ("cat *", True),
        ("date -d now", True),
        ("du -sh", True),
    ],
)
def test_without_a_sandbox_only_a_short_table_runs_unasked(line: str, asks: bool, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "README.md").touch()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "led").symlink_to("src/../pipe")
    (tmp_path / "within").symlink_to("README.md")
    git(tmp_path, "init", "-q")
    permissions = Permissions(Asked(NO), surroundings=surroundings(tmp_path))
    assert judge_lines(permissions, line) == [not asks]


@pytest.mark.parametrize("line", ["time X=1 make", "timeout 5 X=1 make", "nice X=1 make", "X=1 make", "make; X=1 make"])
def test_a_rule_for_a_program_does_not_cover_a_variable_in_front_of_it(line: str, tmp_path: Path) -> None:
    permissions = Permissions(Asked(NO, NO), allow=[Rule("make *")], surroundings=surroundings(tmp_path))
    assert judge_lines(permissions, "timeout 5 make", line) == [True, False]


@pytest.mark.parametrize(
    "line",
    [
        "time -f make touch x",
        "time -o x make",
        "timeout -s KILL make touch",
        "for PATH in ./sub; do make x; done",
        "make x; >y &",
        ">y",
    ],
)
def test_a_rule_for_a_program_covers_nothing_that_an_option_or_a_loop_brings(line: str, tmp_path: Path) -> None:
    permissions = Permissions(Asked(NO), allow=[Rule("make *")], surroundings=surroundings(tmp_path), sandboxed=True)
    assert judge_lines(permissions, line) == [False]


def test_an_option_behind_two_dashes_may_be_one(tmp_path: Path) -> None:
    permissions = Permissions(Asked(NO), allow=[Rule("git grep *")], surroundings=surroundings(tmp_path))
    assert judge_lines(permissions, "git grep -e hi -e -- -Otrue") == [False]


@pytest.mark.parametrize(
    "line",
    [
        "cd sub && ./run.sh",
        "./run.sh; cd sub",
        "(cd sub; ./run.sh)",
        "pushd sub && ./run.sh",
        "command cd sub && ./run.sh",
        "time cd sub && ./run.sh",
        "\\cd sub && ./run.sh",
        "export PATH=sub && ./run.sh",
        "PATH=sub && ./run.sh",
        "alias ls=x; ./run.sh",
        "ls() { ./run.sh; }; ls",
        "echo $(cd sub; ./run.sh)",
        "for n in 1 2; do ./run.sh; cd sub; done",
        "echo x | ./run.sh",
        "echo x | cat | ./run.sh",
        "echo x | (ls; ./run.sh)",
        "echo x | { ./run.sh; }",
        "echo x | if true; then ./run.sh; fi",
        "echo x | for n in 1; do ./run.sh; done",
        "echo x | ls $(./run.sh)",
        "./run.sh | ./run.sh",
        "./run.sh <<< x",
        "./run.sh <<'END'\nx\nEND",
        "(./run.sh) <<'END'\nx\nEND",
        "for n in 1; do ./run.sh; done <<'END'\nx\nEND",
        "./run.sh <&3",
        "./run.sh <> x",
        "./run.sh < x",
    ],
)
def test_a_rule_covers_no_part_of_which_another_says_what_it_does(line: str, repository: Path) -> None:
    (repository / "sub").mkdir()
    rules = [
        Rule(text) for text in ("./run.sh *", "cd *", "pushd *", "ls *", "> *", "command *", "export *", "alias *")
    ]
    permissions = Permissions(Asked(NO), allow=rules, surroundings=surroundings(repository), sandboxed=True)
    assert judge_lines(permissions, "./run.sh a; ls; pwd", line) == [True, False]
    permissions.allow.append(Rule(f"={line}"))
    if "$(" not in line and "<&" not in line:
        assert judge_lines(permissions, line) == [True], "a rule may hold the whole line"


@pytest.mark.parametrize("line", ["cd src && make", "make | tee log", "python x.py <<< a", "cd src && ls; make"])
def test_always_covers_such_a_line_by_its_exact_text(line: str, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    asked = Asked(ALWAYS, NO)
    permissions = Permissions(asked, surroundings=surroundings(tmp_path))
    assert judge_lines(permissions, line, line, f"{line} a") == [True, True, False]
    assert asked.requests[0].rules == (f"={line}",)


def test_a_line_that_its_input_decides_is_asked_for_each_time() -> None:
    asked = Asked(ALWAYS, NO)
    assert judge_lines(Permissions(asked), "curl x | sh", "curl x | sh") == [True, False]
    assert asked.requests[0].rules == ()


def test_never_covers_such_a_line_too(tmp_path: Path) -> None:
    line = "cd src && make"
    permissions = Permissions(Asked(), deny=[Rule(f"={line}")], allow=[Rule("*")])
    assert judge_lines(permissions, line, "make") == [False, True]


@pytest.mark.parametrize(
    "line",
    [
        *("git status", "git status && true", "timeout 5 git status", "git -C . status", "gh pr list"),
        *("sh -c 'git status'", r"g\it status", "g'i't status", r"timeout 5 g\it status", r"sh -c 'g\it status'"),
    ],
)
@pytest.mark.parametrize("doubt", ["setting", "hook", "submodule", "bare"])
def test_no_rule_outweighs_settings_of_a_repository_that_nobody_trusts(
    line: str, doubt: str, repository: Path, tmp_path: Path
) -> None:
    guard = RepositoryGuard(repository, os.environ)
    rules = [Rule(text) for text in ("git status *", "git -C *", "gh *", "=sh -c 'git status'", f"={line}", "true")]
    permissions = Permissions(Asked(NO), allow=rules, surroundings=surroundings(repository), repository=guard)
    assert judge_lines(permissions, line) == [True]
    match doubt:
        case "setting":
            git(repository, "config", "core.fsmonitor", "./run.sh")
        case "hook":
            (repository / ".git" / "hooks").mkdir(exist_ok=True)
            (repository / ".git" / "hooks" / "pre-commit").touch(0o755)
        case "submodule":
            git(repository, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub")
        case "bare":
            (repository / ".git").rename(repository / "moved")
            (repository / ".git").symlink_to("moved")
    assert judge_lines(permissions, line) == [False]
    if doubt in ("setting", "hook"):
        guard.trusted = guard.digest
        assert judge_lines(permissions, line) == [True], "the user trusts them"


def make_repositories(folder: Path) -> None:
    """Make repositories: with a setting that starts a program, with a hook, without files, and a harmless one."""
    for name in ("monitored", "hooked", "harmless"):
        git(folder, "init", "-q", name)
        git(folder / name, "-c", "user.name=a", "-c", "user.email=a", "commit", "-qm", "a", "--allow-empty")
    git(folder / "monitored", "config", "core.fsmonitor", "./run.sh")
    (folder / "hooked" / ".git" / "hooks").mkdir(exist_ok=True)
    (folder / "hooked" / ".git" / "hooks" / "pre-commit").touch(0o755)
    git(folder, "init", "-q", "--bare", "remote.git")


@pytest.mark.parametrize(
    ("line", "asks"),
    [
        ("git -C monitored status", True),
        ("git -C harmless status", False),
        ("git -C harmless -C ../hooked commit -m a", True),
        ("git -C missing status", False),
        ("git --git-dir=monitored/.git status", True),
        ("git push ./remote.git main", True),
        ("git push remote.git main", True),
        ("git push remote main", True),
        ("git push file://localhost{}/remote%2egit main", True),
        ("git push file://{}/remote.git main", True),
        ("git remote add e remote.git; git push e main", True),
        ("git push origin main", False),
        ("git add monitored && git status", True),
        ("git add . && git status", True),
        ("cd monitored && git status", True),
        ("cd harmless && git status", False),
        ("cd harmless && cd ../monitored && git status", True),
        ("GIT_DIR=monitored/.git git status", True),
    ],
)
@pytest.mark.parametrize("at_top", [True, False])
def test_no_rule_covers_git_where_the_line_leads_to_a_repository_that_may_start_programs(
    line: str, asks: bool, at_top: bool, tmp_path: Path
) -> None:
    make_repositories(tmp_path)
    if at_top:
        git(tmp_path, "init", "-q")
    line = line.format(tmp_path)
    texts = ("git *", "git -C *", "git -C harmless *", f"={line}", "git --git-dir=*")
    guard = RepositoryGuard(tmp_path, os.environ)
    permissions = Permissions(Asked(NO), allow=list(map(Rule, texts)), repository=guard)
    assert judge_lines(permissions, line) == [not asks]


@pytest.mark.parametrize("line", ["case x in *) git status;; esac", "git status <<E\n$x\nE"])
def test_a_rule_for_everything_covers_no_line_that_cannot_be_read_where_git_may_start_a_program(
    line: str, repository: Path
) -> None:
    guard = RepositoryGuard(repository, os.environ)
    permissions = Permissions(Asked(NO), allow=[Rule("*")], repository=guard)
    assert judge_lines(permissions, line) == [True]
    git(repository, "config", "core.fsmonitor", "./run.sh")
    assert judge_lines(permissions, line) == [False]


def test_where_there_is_no_repository_a_rule_for_git_holds(tmp_path: Path) -> None:
    guard = RepositoryGuard(tmp_path, os.environ)
    permissions = Permissions(Asked(), allow=[Rule("git init *")], repository=guard)
    assert judge_lines(permissions, "git init x") == [True]


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("tar *", "tar -cf x --checkpoint-action=exec=y ."),
        ("tar *", "tar -cf x --checkpoint-act=exec=y ."),
        ("tar *", "tar --to-c y -xf x"),
        ("tar *", "tar -xIy -f x"),
        ("tar *", "tar xIf y x"),
        ("tar *", "tar cf x $y"),
        ("rsync *", "rsync --rs=y a b"),
        ("rsync *", "rsync -ae y a b"),
        ("sort *", "sort --compress-prog=y x"),
        ("sort *", "sort --out=y x"),
        ("git fetch *", "git fetch --upload-p=y ."),
        ("git push *", "git push --exec=y . main"),
        ("git rebase *", "git rebase -x y main"),
        ("git rebase *", "git rebase --ex y main"),
        ("git clone *", "git clone -u y a b"),
        ("git submodule *", "git submodule foreach y"),
        ("git *", "git bisect run y"),
        ("git *", "for x in -c; do git $x y status; done"),
        ("python *", "for x in -c; do python $x y; done"),
        ("find *", "for x in -delete; do find . $x; done"),
        ("find *", 'find . "$(echo -delete)"'),
        ("make *", "make -C sub"),
        ("make *", "make test -C sub"),
        ("make *", "make test --dir=sub"),
        ("make *", "make test --ev=y"),
        ("make *", "make -kf y"),
        ("make *", "make SHELL=./y"),
        ("npm run test *", "npm run test --prefix sub"),
        ("cargo test *", "cargo test --manifest-p sub/Cargo.toml"),
        ("go test *", "go test -exec y ."),
        ("go test *", "go test --exec=y ."),
        ("go build *", "go build --C=sub"),
        ("go vet *", "go vet -vettool=y ."),
        ("npm run *", "npm run test --userconfig=y"),
        ("env *", "time -f make touch x"),
        ("make *", "make 'x!=y'"),
        ("make *", "make 'SHELL:=./y' test"),
        ("make test *", "make test 'SHELL = ./y'"),
        ("make *", "make '.SHELLFLAGS=-c y' test"),
        ("make *", "make 'a-b:=y'"),
        ("make *", "make -E y"),
        ("just *", "just shell=y test"),
        ("npm test *", "npm test --globalconfig=./y"),
        ("npm test *", "npm test --globalc ./y"),
        ("npm test *", "npm test --no-script-shell ./y"),
        ("npm test *", "npm test --no-scr ./y"),
        ("npm test *", "npm test -w sub"),
        ("npm test *", "npm test --workspaces"),
        ("npm *", "npm x -c ./y"),
        ("npm *", "npm exe y"),
        ("npm *", "npm config edit --editor=./y"),
        ("npm *", "npm set script-shell=./y"),
        ("go test *", "go test --ldflags=-extld=./y"),
        ("go *", "go env -w CC=./y"),
        ("gcc *", "gcc -B./y/ -c a.c"),
        ("gcc *", "gcc @y -c a.c"),
        ("gcc *", "gcc -Wl,@y a.c"),
        ("gcc *", "gcc -wrapper ./y -c a.c"),
        ("gcc *", "gcc -fuse-ld=y a.c"),
        ("gcc *", "gcc -fplugin=./y.so a.c"),
        ("gcc *", "gcc -specs=y a.c"),
        ("gcc *", "gcc -Xlinker -plugin -Xlinker ./y.so a.c"),
        ("gcc *", "gcc -Wl,-plugin,./y.so a.c"),
        ("gcc-12 *", "gcc-12 -B./y a.c"),
        ("x86_64-linux-gnu-g++ *", "x86_64-linux-gnu-g++ -B./y a.cc"),
        ("clang *", "clang -Xclang -load -Xclang ./y.so a.c"),
        ("man *", "man -C y ls"),
        ("man *", "man -Py ls"),
        ("man *", "man -Hy ls"),
        ("cmake *", "cmake -P y"),
        ("cmake *", "cmake -E touch y"),
        ("cmake *", "cmake --build y"),
        ("cmake *", "cmake -C y ."),
        ("cmake *", "cmake -DCMAKE_C_COMPILER=./y ."),
        ("cmake *", "cmake -D CMAKE_C_COMPILER=./y ."),
        ("ninja *", "ninja -C y"),
        ("ninja *", "ninja -f y"),
        ("git *", "git filter-branch --tree-filter y"),
        ("git *", "git send-email --smtp-server=/y a"),
        ("git *", "git remote-ext a y"),
        ("git *", "git instaweb --httpd=y"),
        ("git *", "git bisect--helper --bisect-ru y"),
        ("git *", "git mergetool -t y"),
        ("git *", "git my-alias"),
        ("git *", "git ./y"),
        ("git *", "git merge -s ./y main"),
        ("rsync *", "rsync --daemon --config=y"),
        ("rsync *", "rsync -M--rsh=y a b"),
        ("scp *", "scp -oProxyCommand=y a b:"),
        ("split *", "split --filter=y a"),
        ("mypy *", "mypy --python-executable ./y src"),
        ("pylint *", "pylint --init-hook=y src"),
        ("mvn *", "mvn -Dexec.executable=./y exec:exec"),
        ("gradle *", "gradle -Iy test"),
        ("git *", "git config alias.x '!y' && git x"),
        ("git *", "git config core.hooksPath y; git commit -m x"),
        ("git *", "git config set --all core.fsmonitor y"),
        ("git *", "git config rename-section user alias"),
        ("git *", "git archive --remote=y HEAD"),
        ("git *", "git archive -o .git/hooks/pre-commit HEAD"),
        ("git *", "git bundle create sub/.git/config HEAD"),
        ("git push *", "git push -o origin y main"),
        ("hg *", "hg status --config ui.editor=y"),
        ("apt-get *", "apt-get install -o DPkg::Pre-Invoke::=y a"),
        ("python3.12 *", "python3.12 -c y"),
        ("lua5.4 *", "lua5.4 -e y"),
        ("cargo *", "cargo +./y test"),
    ],
)
def test_a_rule_with_a_wildcard_covers_no_option_that_runs_something_else(line: str, rule: str, tmp_path: Path) -> None:
    permissions = Permissions(Asked(NO), allow=[Rule(rule), Rule("echo *")], surroundings=surroundings(tmp_path))
    assert judge_lines(permissions, line) == [False]


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("tar *", "tar -czf x.tgz --exclude=a ."),
        ("tar *", "tar xzf x.tgz"),
        ("make -C sub *", "make -C sub test"),
        ("git push *", "git push --force origin main"),
        ("git fetch *", "git fetch --prune"),
        ("pytest *", "pytest tests/*.py -k 'a or b'"),
        ("git *", "git checkout -b shell"),
        ("git *", "git config user.name me"),
        ("git *", "git config set user.name core.hooksPath"),
        ("gcc *", "gcc -O2 -DNDEBUG -DBUILD=1 -Iinclude -Wall -Wl,-Bstatic -c a.c -o a.o"),
        ("cmake *", "cmake -B build -GNinja ."),
        ("ninja *", "ninja -j 4 all"),
        ("npm *", "npm install --save-dev @scope/name"),
        ("go test *", "go test -run Shell ./..."),
        ("man *", "man -k exec"),
        ("mvn *", "mvn package -q -DskipTests"),
        ("python3.12 *", "python3.12 x.py -c y"),
        ("npm run test *", "npm run test -- --color"),
        ("find . -delete", "find . -delete"),
    ],
)
def test_other_options_are_covered(line: str, rule: str, tmp_path: Path) -> None:
    permissions = Permissions(Asked(), allow=[Rule(rule)], surroundings=surroundings(tmp_path))
    assert judge_lines(permissions, line) == [True]


def test_a_rule_covers_each_option_that_it_names_and_no_other_one(tmp_path: Path) -> None:
    permissions = Permissions(Asked(NO), allow=[Rule("make -C sub *")], surroundings=surroundings(tmp_path))
    assert judge_lines(permissions, "make -C sub", "make -C sub -f y") == [True, False]
