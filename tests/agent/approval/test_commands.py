from __future__ import annotations

import pytest

from wane.agent.approval.splitting import parts_of


def texts(line: str) -> list[str] | None:
    parts = parts_of(line)
    return None if parts is None else [part.text for part in parts]


COMMIT = "git commit -m \"$(cat <<'EOF'\nDon't (ever) `x`\nEOF\n)\""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("ls -la", ["ls -la"]),
        ("cat x && ls", ["cat x", "ls"]),
        ("a || b; c & d\ne | f", ["a", "b", "c", "d", "e", "f"]),
        ("ls && ls", ["ls"]),
        ("(cd a; { ls; })", ["cd a", "ls"]),
        ("if [ -f x ]; then a; elif b; then c; else d; fi", ["[ -f x ]", "a", "b", "c", "d"]),
        ('for f in *; do rm "$f"; done', ['rm "$f"']),
        ("f() { rm x; }; f", ["rm x", "f"]),
        ("! rm x", ["rm x"]),
        ("echo $(rm x) `ls` <(pwd) ${y}", ["echo $(rm x) `ls` <(pwd) ${y}", "rm x", "ls", "pwd"]),
        ('echo "$(rm x)"', ['echo "$(rm x)"', "rm x"]),
        ("cat <<EOF && ls\nrm x\nEOF\npwd", ["cat", "ls", "pwd"]),
        ("(cat <<A; cat <<-'B')\nrm x\nA\n\trm y\n\tB\nls", ["cat", "ls"]),
        ("git commit -m \"$(cat <<'EOF'\nDon't (ever) `x`\nEOF\n)\"; ls", [COMMIT, "cat", "ls"]),
        ("cat <<'EOF' | sh\n$(no)\nEOF", ["cat", "sh"]),
        ("X=1 make", ["X=1 make"]),
        ("X=$(rm y)", ["X=$(rm y)", "rm y"]),
        ("export PATH=/x; ls", ["export PATH=/x", "ls"]),
        ("ls > a 2>&1 >> b 2>/dev/null", ["ls", "> a", "> b"]),
        ("ls &> a", ["ls", "> a"]),
        ("cat < in", ["cat", "< in"]),
        ("ls >a -l", ["ls -l", "> a"]),
        ("while a; do b; done >c", ["a", "b", "> c"]),
        ("a \\\n  b", ["a \\\n  b"]),
        ("echo a # && rm x", ["echo a"]),
        ("echo 'a && rm x'", ["echo 'a && rm x'"]),
    ],
)
def test_every_part_of_a_line_is_found(line: str, found: list[str]) -> None:
    assert texts(line) == found


@pytest.mark.parametrize(
    "line",
    [
        "",
        "echo 'open",
        "((rm x))",  # two subshells in dash
        "[[ a && rm x ]]",  # two commands in dash
        r"echo $'\' ; rm x #'",  # ends elsewhere in dash
        "if ls",
        "$(",
        "a\0b",
        "ls\rrm x",
        "ls\u00a0x",
        "(" * 5_000 + ")" * 5_000,
        # What the shell expands once more, or reads in a way of its own.
        "cat <<EOF\n$(rm x)\nEOF",
        "cat <<EOF\n\\\nEOF\nEOF",
        "cat <<EOF",
        "cat <<E$(x)F\nE$(x)F",
        "cat <<<$x",
        'cat <<EOF "a\nEOF\nb"\nEOF',
        "echo $(cat <<EOF)\nEOF",
        "echo ${x:-a}",
        "echo ${x@P}",
        "echo `echo \\`rm x\\``",
        "echo a\\\nb",
        "ls &\\\n& rm x",
        'echo "a\\\nb"',
        "case x in x) ls;; esac",
        "select x in a; do ls; done",
        "function f { ls; }",
        "a=(1 2)",
        "ls |& cat",
        "ls;; rm x",
        "echo $[1+1]",
        "for x; do ls; done",
        "ls é",
    ],
)
def test_what_cannot_be_read_for_sure_is_not_read(line: str) -> None:
    assert parts_of(line) is None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (r""""git" st'a'tus \-s a\ b""", ("git", "status", "-s", "a b")),
        (
            'echo $x "a $y" a* {a,b} ~ a~b HEAD~1 @{u} ! !x "*" \\* [a] -',
            ("echo", None, None, None, None, None, "a~b", "HEAD~1", "@{u}", "!", None, "*", "*", None, "-"),
        ),
        ("$x y", (None, "y")),
        ('A=1 "B" c', ("A=1", "B", "c")),
        ('> "a b/../c"', (">", "c")),
        ("> $x", (">", None)),
        ("< a", ("<", "a")),
        ("-*", (None,)),
    ],
)
def test_words_are_those_that_the_program_gets(line: str, words: tuple[str | None, ...]) -> None:
    (part,) = parts_of(line) or ()
    assert part.words == words
