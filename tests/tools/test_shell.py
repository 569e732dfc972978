"""Command lines are taken apart as a shell would, and whatever a model writes is taken somehow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wane.tools.shell import parse


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ls -la src", [["ls", "-la", "src"]]),
        ("cd a && ls; pwd || true & wait", [["cd", "a"], ["ls"], ["pwd"], ["true"], ["wait"]]),
        ("cat f | grep -c 'a b|c' |& tee", [["cat", "f"], ["grep", "-c", "a b|c"], ["tee"]]),
        ('echo "a; b" c\\ d \'e"f\'', [["echo", "a; b", "c d", 'e"f']]),
        ("(cd a; ls) && pwd", [["cd", "a"], ["ls"], ["pwd"]]),
        ("echo $(git status) x", [["git", "status"], ["echo", "$()", "x"]]),
        ('echo "now `date -u`"', [["date", "-u"], ["echo", "now $()"]]),
        ('echo "${x:-a b}" $((1 + (2))) $HOME', [["echo", "${x:-a b}", "$()", "$HOME"]]),
        ("a \\\n  b # c; d\ne", [["a", "b"], ["e"]]),
        ("diff <(ls a) <(ls b)", [["ls", "a"], ["ls", "b"], ["diff", "$()", "$()"]]),
        ("for x in 1 2; do echo $x; done", [["for", "x", "in", "1", "2"], ["do", "echo", "$x"], ["done"]]),
        ("f() { ls; }", [["{", "ls"], ["}"]]),
        ("[[ a > b ]] && ls", [["[[", "a", "b", "]]"], ["ls"]]),
        ("((i++)); ls", [["ls"]]),
        ("", []),
        ("   \n # nothing\n", []),
    ],
)
def test_simple_commands(line: str, words: list[list[str]]) -> None:
    assert [simple.words for simple in parse(line)] == words


def test_redirections() -> None:
    (simple,) = parse("cmd -n 5 <in 2>err.log >> out.txt >&2 2>&1 &> both >| forced")
    assert simple.words == ["cmd", "-n", "5"]
    assert simple.reads == ["in"]
    assert simple.writes == ["err.log", "out.txt", "both", "forced"]


def test_here_documents_are_no_commands() -> None:
    first, second, third = parse("cat > a.py <<'EOF' && cat <<-END | wc\nrm -rf it's\nEOF\n\tx\n\tEND\nls")[:3]
    assert (first.words, first.writes, first.heredoc) == (["cat"], ["a.py"], "rm -rf it's\n")
    assert (second.words, second.heredoc) == (["cat"], "\tx\n")
    assert third.words == ["wc"]
    assert parse("cat <<EOF\nnever closed")[0].heredoc == "never closed"
    assert parse("python3 <<< 'print(1)'")[0].heredoc == "print(1)"


def test_a_here_document_inside_a_quoted_substitution() -> None:
    line = 'git commit -m "$(cat <<\'EOF\'\nDon\'t (ever) "quote"\nEOF\n)" && git push'
    assert [simple.words for simple in parse(line)] == [["cat"], ["git", "commit", "-m", "$()"], ["git", "push"]]


@given(st.text(alphabet="ab '\"\\`$(){}[]<>|&;#=-!\n\t01", max_size=60))
def test_no_text_is_too_odd(line: str) -> None:
    assert parse(line) == parse(line)


@pytest.mark.parametrize("line", ["$(" * 5_000, "(" * 5_000, "`" * 5_000, '"$(' * 5_000, "<(" * 5_000, "{" * 5_000])
def test_no_nesting_is_too_deep(line: str) -> None:
    parse(line)
