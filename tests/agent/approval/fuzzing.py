"""Makes lines of shell from harmless ones, and runs those that are judged to read, without a sandbox.

What a line must not do leaves a trace: a file that appears or changes, a file outside of the project that was read, or
a word in the output that only the environment, the home directory or the outside has.
"""

from __future__ import annotations

import os
import random
import shlex
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.agent.approval.everyday import READING
from tests.agent.approval.test_everyday import make_project
from tests.agent.conftest import git
from wane.agent.approval.grammar import UnreadableError, read_line
from wane.agent.approval.readonly import Reading, Surroundings, readings
from wane.agent.approval.splitting import parts_of_line
from wane.agent.repositories import RepositoryGuard, quiet_environment
from wane.agent.sandbox.wall import Sandbox, supervisor_argv
from wane.tools.usages import PROGRAMS, USAGES

SHELLS: Final = ("dash", "bash")
TOKEN: Final = "canary7391"
"""A word of the outside, of the home directory's files and names, and of a variable."""

_SEEDS: Final = [
    *READING,
    "cat <<EOF\nhello\nEOF",
    "cat <<'EOF' | wc -l\nhello $x\nEOF",
    "cat <<-EOF && ls\n\thello\n\tEOF",
    "cat <<< hello",
    "(cd src; ls) && ls docs",
    "{ ls; pwd; } 2>&1",
    'echo "$(git rev-parse HEAD) $(pwd)"',
    "echo `pwd`",
    "if ! test -f nothing; then echo a; elif true; then echo b; fi",
    'for f in README.md src/*.py; do head -1 "$f"; cat $f; done',
    "ls \\\n  -la \\\n  src",
    "echo ${HOME}; echo $((1 + 2))",
    "cat README.md # all of it",
    "diff <(ls src) <(ls docs)",
    "sort -k 2 -t : app.log | cut -f1 -d:",
    "find . -name a -o -name b",
    "grep -e foo -f names.txt README.md",
    "printf '%s %s\\n' a b",
    "test a = b || [ 1 -lt 2 ]",
    "cat < README.md > /dev/null",
    "git log -1 --format='%h %an' -- README.md",
    "cat odd/*",
    "ls odd/*; echo odd/?*",
    'for f in odd/*; do cat "$f"; wc -l -- $f; done',
    "cd odd && wc -l *",
    "cd odd && ls *.txt && cd ..",
    "git branch --list 'm*'; git tag -l; git stash list",
    "awk -F: 'NR>1 {print $1, $2}' app.log; sed -n '/a/p;2q' app.log",
    "jq -r '.scripts | to_entries[] | .key' package.json",
]
"""Lines of which others are made."""

_FRAGMENTS: Final = [
    " ", "\t", "\n", "\\\n", "\\", "'", '"', "`", "$", "$(", ")", "(", "{", "}", "[", "]", "*", "?", "~", "!", "#",
    "&", "|", ";", "<", ">", "&&", "||", "<<", "<<-", "<<<", ">>", ">&", "<&", "&>", "2>", "$'", '$"', "${", "$((",
    "((", "))", "[[", "]]", "EOF", "'EOF'", "\nEOF\n", "<<EOF\n", "-", "--", "=", ",", "..", "%", "@", "^", ":", "/",
    "é", "\u00a0", "\r", " touch mark ", ";touch mark;", "$(touch mark)", "`touch mark`", "\ntouch mark\n",
    "|touch mark", "&touch mark", " > mark", ">mark ", " -o mark", " --output=mark", "{a,touch mark}",
    "$(<link/secret)", "<(touch mark)", " >(cat)", " link", " link/secret", " ../outside", " ../outside/secret",
    " src/link.txt", " $HOME", " ~/", " ~", " link/*", " l*", " ../*", " src/*", " src/l*", " .*", " -f link/secret",
    " -flink/secret", " cd link;", "cd link && ", "cd ..;", "cd src;", "cd - ;", "$SECRET", '"$SECRET"', "${SECRET}",
    "${x:-$SECRET}", "x=", "PATH=.", "HOME=/", "IFS=a ", "export ", "env ", "printenv ", "eval ", "exec ", "command ",
    "time ", "! ", "coproc ", "function ", "f() { ", "; }", "if ", "then ", "else ", "fi", "while ", "do ", "done",
    "for x in ", "case ", "in ", "esac", "alias ls=touch\n", ". ./setup.py", "source ", " -exec touch mark ;",
    " -delete", " -fprint mark", " -i", " -w mark", " w mark", '{system("touch mark")}', " --pre touch", "s/a/b/e",
    "$0", "$@", "$1", "$?", " -v mark", " -v 'a[$(touch mark)]'", "@P}", " 'w mark'", " xargs touch",
    "| xargs touch mark", " -C ..", " -C src", " -c core.pager=touch", " --ext-diff", " --no-index ../outside",
    " ../outside/secret README.md", " -L", " -R", " -r", " --files0-from=names.txt",
]  # fmt: skip


def mutate_line(randomness: random.Random) -> str:
    """Return a line that is made of one or two harmless ones."""
    line = randomness.choice(_SEEDS)
    options = [option for usages in USAGES.values() for usage in usages for option in usage.options]
    for _ in range(randomness.randint(1, 4)):
        position = randomness.randint(0, len(line))
        end = min(len(line), position + randomness.randint(0, 8))
        match randomness.randint(0, 9):
            case 0 | 1 | 2 | 3:
                line = line[:position] + randomness.choice(_FRAGMENTS) + line[position:]
            case 4:
                line = line[:position] + line[end:]
            case 5:
                line = line[:end] + line[position:end] + line[end:]
            case 6:
                joint = randomness.choice([" ", "; ", " && ", " | ", "\n", " || ", " & ", "`", "$("])
                line = line + joint + randomness.choice(_SEEDS)
            case 7:
                words = line.split(" ")
                words[randomness.randrange(len(words))] = randomness.choice([*sorted(PROGRAMS), "src", "link", "mark"])
                line = " ".join(words)
            case 8:
                words = line.split(" ")
                words.insert(randomness.randint(1, len(words)), randomness.choice(options))
                line = " ".join(words)
            case _:
                line = line[:position] + randomness.choice(_FRAGMENTS) + line[end:]
    return line


_VALUES: Final = {
    "pair": ["a 1"], "patterns": ["names.txt"], "path": ["README.md", "src"], "tree": ["README.md"], "plus": ["+%Y"],
    "format": ["%h"], "few": ["2"], "sed": ["p"], "awk": ["'{print $1}'"], "jq": [".version"], "tested": ["README.md"],
}  # fmt: skip
"""Values of each kind; those of the others are texts."""


def table_lines() -> Iterator[str]:
    """Yield a line for each option of the table, with each of some values, on files and on directories."""
    for key, usages in USAGES.items():
        for usage in usages:
            name = " ".join([*key, *sorted(usage.required, key=len)[:1]])
            kinds = [kind.rstrip("*?") for kind in usage.operands]
            operands = [" ".join(_VALUES.get(kind, ["mark"])[0] for kind in kinds)]
            if "path*" in usage.operands or "tree*" in usage.operands:
                first = " ".join(_VALUES.get(kind, ["main"])[0] for kind in kinds[:-1])
                operands += [f"{first} .", f"{first} src docs", first]
            for option, kind in [("", ""), *usage.options.items()]:
                values = _VALUES.get(kind, ["1", "mark"]) if kind else [""]
                values += [""] if option in usage.optional else []
                for value in values:
                    attached = f"{option}={value}" if option.startswith("--") else f"{option}{value}"
                    written = attached if option in usage.optional and value else f"{option} {value}"
                    for operand in operands:
                        yield " ".join(filter(None, (name, written.strip(), operand.strip())))


class Range:
    """A project, with a home directory and an outside, in which lines are run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = make_project(folder)
        for directory in (folder / "outside", folder / "home"):
            directory.mkdir(exist_ok=True)
            (directory / "secret").write_text(f"{TOKEN}\n")
            (directory / f"{TOKEN}.txt").write_text("")
        (self.project / "odd").mkdir()
        for name in ("-o mark", "a b.txt", "$(touch mark).txt", "`touch mark`", "*", "c;touch mark", "'", "plain.txt"):
            (self.project / "odd" / name).write_text("text\n")
        # Whatever writes the index leaves a mark.
        hook = self.project / ".git" / "hooks" / "post-index-change"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch '{self.project}/mark'\n")
        hook.chmod(0o755)
        git(self.project, "init", "-q", "--bare", "bare")
        path = os.pathsep.join([os.environ.get("PATH", os.defpath), sysconfig.get_path("scripts")])
        environ = {
            "PATH": path,
            "HOME": str(folder / "home"),
            "SECRET": TOKEN,
            "LANG": "C.UTF-8",
            "PWD": str(self.project),
        }
        self.environ = quiet_environment(environ)
        opens = RepositoryGuard(self.project, self.environ).opens
        self.surroundings = Surroundings(self.project, self.environ, opens)
        self._state = self._look()

    def reads(self, line: str) -> bool:
        """Return whether a line is judged to read only."""
        try:
            script = read_line(line)
        except UnreadableError:
            return False
        verdicts = readings(script, self.surroundings)
        return all(verdicts[part] is not Reading.ASKS for part in parts_of_line(script))

    def harm(self, line: str, sandbox: Sandbox | None = None) -> Iterator[str]:
        """Run a line in each shell, and yield what it did that it must not.

        Without a sandbox it runs as it is; with one, where a line runs that nobody allowed.
        """
        for shell in SHELLS:
            command, environ = [shell, "-c", line], self.environ
            if sandbox is not None:
                temporary = self.folder.parent / "temporary"
                shutil.rmtree(temporary, ignore_errors=True)
                temporary.mkdir()
                spec = sandbox.specification(shlex.join(command), self.environ, str(temporary))
                command = supervisor_argv({**spec, "tied": False, "seconds": 5})
                environ = sandbox.environment(self.environ, sandbox.temporary(temporary))
            try:
                # In a session of its own: a line reaches neither the terminal nor the processes of the tests.
                done = subprocess.run(
                    command, cwd=self.project, env=environ, stdin=subprocess.DEVNULL, capture_output=True,
                    timeout=10, check=False, start_new_session=True,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                yield f"{shell}: it does not end"
                continue
            if TOKEN.encode() in done.stdout + done.stderr:
                yield f"{shell}: it tells what is outside"
            if (state := self._look()) != self._state:
                changed = [str(path) for path in {**state, **self._state} if state.get(path) != self._state.get(path)]
                yield f"{shell}: it changed or read {', '.join(sorted(changed)[:5])}"
                self._state = state

    def _look(self) -> dict[Path, tuple[int, ...]]:
        """Return what writing changes of all files, and what reading changes of those outside."""
        state: dict[Path, tuple[int, ...]] = {}
        for place, folders, names in os.walk(self.folder):
            for name in (*folders, *names):
                path = Path(place, name)
                status = path.lstat()
                outside = not path.is_relative_to(self.project)
                state[path] = (status.st_size, status.st_mtime_ns, status.st_ino, status.st_mode)
                if outside and path.is_file():
                    if path not in getattr(self, "_state", {}):
                        # A file is marked as read at its first reading, if it was not since it was written.
                        os.utime(path, ns=(0, status.st_mtime_ns))
                    state[path] += (path.stat().st_atime_ns,)
        return state
