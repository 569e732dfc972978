"""Rules for what the agent may do: patterns that allow or deny commands, edits and MCP tools.

A rule is a line of text, one of:

- `git status`: the command with exactly these words
- `git diff *`: the command with these words and any others after them; within a word, `*` stands for any characters
- `> build/*`: a redirection of output into such a file; `< data/*` of input from one
- `=make | tee log`: exactly this text
- `edit:docs/*`: changes of such files by the file tools
- `mcp:github_*`: such tools of MCP servers

Rules that the user gave for good are kept by project, in the user's own file. They are never read from the project: a
cloned repository must not grant itself permissions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Final

from filelock import FileLock

from wane.agent.repositories import is_harmless
from wane.core.errors import ConfigError
from wane.replacing import replace_file
from wane.tools import programs as known
from wane.tools.command_lines import inner_words
from wane.tools.paths import basename
from wane.tools.usages import USAGES

if TYPE_CHECKING:
    from wane.agent.approval.splitting import ShellPart

FILE: Final = "approvals.json"
"""Name of the file with remembered rules, in the directory of the user's settings."""

EDIT: Final = "edit:"
MCP: Final = "mcp:"

_TRUSTED: Final = "trusted repositories"
_UNTRUSTED: Final = "untrusted repositories"
_KINDS: Final = ("allow", "deny", _TRUSTED, _UNTRUSTED)

_PLAIN: Final = re.compile(r"[\w./+@:,%~^-]+")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*(\[[^]]*\])?\+?=")
_TRANSPARENT: Final = {"time": 0, "timeout": 1, "nice": 0, "nohup": 0, "stdbuf": 0}
"""Wrappers that do not change what the command behind them does, with the number of their own arguments."""
_WRAPPERS_OPTION: Final = re.compile(r"-p|-n|-?-?\d+|-n-?\d+|-[ioe][0L]")

_WITH_SUBCOMMANDS: Final = (
    known.word_set("""
        git gh glab hub jj svn hg terraform tofu aws gcloud az fly vercel netlify heroku pulumi ansible vagrant
        pdm hatch rye pre-commit tox nox deno ruff dvc rustup nvm fnm volta turbo nx lerna bazel buck2 pants
        ant sbt mill lein stack cabal opam flutter dart swift pod xcodebuild adb az wane
    """)
    | known.INSTALLERS
    | known.SERVICES
    | known.BUILDERS
) - known.word_set("tmux screen rpm dpkg")
"""Programs whose first argument is a sub-command."""

_TWO_SUBCOMMANDS: Final = {
    ("npm", "run"), ("pnpm", "run"), ("yarn", "run"), ("bun", "run"), ("deno", "task"), ("docker", "compose"),
    ("git", "remote"), ("git", "stash"), ("git", "worktree"), ("uv", "pip"), ("uv", "tool"), ("wane", "lab"),
}  # fmt: skip
_ALWAYS_TWO_SUBCOMMANDS: Final = known.word_set("gh glab aws gcloud az")

_EXACT: Final = (
    (known.WRAPPERS.keys() - _TRANSPARENT.keys())
    | known.word_set("source . trap alias export declare typeset local readonly unset set shopt enable hash cd pushd")
    | known.word_set("ssh su chroot unshare nsenter flock entr uvx pipx rm dd shred mkfs truncate crontab at batch")
    | known.word_set("""
        valgrind ltrace perf hyperfine taskset chrt setarch linux32 linux64 fakeroot proxychains proxychains4 torsocks
        firejail bwrap prlimit numactl runuser setpriv capsh start-stop-daemon pkexec systemd-run systemd-nspawn tmux
        screen expect socat nc ncat gdb lldb rr nix nix-shell watchexec nodemon concurrently faketime rlwrap dotenv
        busybox toybox ash mksh csh tcsh pwsh nu tclsh osascript vi vim nvim ex ed emacs
    """)
)
"""Programs that run other commands, change how later ones are read, or destroy data: only exact text is remembered."""

_REDIRECTIONS: Final = (">", "<")

_NEVER: Final = known.word_set("xargs parallel eval coproc")
"""Programs whose input decides what runs: never remembered."""

_WATCHED: Final = known.word_set("find fd fdfind rg sort git")
"""Programs with options that run commands, or write or remove files. Rules cover those of the table of usages."""

_OF_NPM: Final = known.word_set("""
    audit ci dedupe doctor explain fund help i install it install-test la list ll ls outdated pack ping prune publish
    query r rb rebuild remove restart rm root run run-script search show start stop t test un uninstall unpublish up
    update v version view whoami why
""")
_OF_GIT: Final = (
    known.GIT_EXPLORING
    | known.GIT_REVIEW
    | known.GIT_LISTS.keys()
    | known.word_set("""
        add am apply archive bundle checkout cherry-pick clean clone commit commit-tree format-patch fsck gc hash-object
        init lfs maintenance merge mv prune pull push read-tree rebase reflog repack replace reset restore revert rm
        sparse-checkout switch symbolic-ref update-index update-ref write-tree
    """)
)
_COVERED: Final = {"git": _OF_GIT, "npm": _OF_NPM}
"""Subcommands that `git *` and `npm *` cover. Others run what their words say (`filter-branch`, `x`), change the user's
settings, or are aliases."""

_TELLING: Final = re.compile(
    r"(?<![a-z])(cmd|command|compiler|editor|eval|exec|executable|execute|hook|interpreter|launcher|linker|pager|plugins?"
    r"|preprocessor|prog|program|rsh|script|shell|toolchain|wrapper)(?![a-z])",
    re.IGNORECASE,
)
"""A word in the name of an option of any program that tells that its value is run: `--post-hook=x`, `-Wl,-plugin,x`."""

_ELSEWHERE: Final = known.word_set("""
    -C -f --directory --file --makefile --eval --include-dir --prefix --cwd --dir --manifest-path --config --project-dir
    --project --init-script --build-file --script-shell --settings -exec -toolexec -vettool -modfile -overlay
    --userconfig --globalconfig --node-options -ldflags -gccgoflags --working-dir --working-directory --justfile
    --taskfile --rakefile --require --preload --include-build --config-file --use-yarnrc
""")
_COMPILES: Final = known.word_set("""
    @* -B* --prefix* -wrapper* -fplugin* -fpass-plugin* -fuse-ld* --ld-path* -fmodule-mapper* -specs* --specs* --config*
    -iplugindir* -Xclang* -cc1* -load* -ccc* -W?,*@* -W?,*-load*
""")
_COMPILERS: Final = known.word_set("gcc g++ cc c++ cpp clang clang++ gfortran gccgo")

_RUNNING_FLAGS: Final[dict[tuple[str, ...], frozenset[str]]] = {
    ("tar",): known.word_set("""
        -I -F --to-command --checkpoint-action --use-compress-program --rsh-command --rmt-command --info-script
        --new-volume-script
    """),
    ("rsync",): known.word_set("-e -M --rsh --rsync-path --remote-option --daemon --config --dparam"),
    ("scp",): known.word_set("-S -D -F -o"),
    ("sftp",): known.word_set("-S -D -F -b -o"),
    ("zip",): known.word_set("-T -TT --unzip-command"),
    ("split",): known.word_set("--filter"),
    ("man",): known.word_set("-C -P -H --config-file --pager --html --preprocessor"),
    ("wget",): known.word_set("-e --execute --use-askpass --config"),
    ("curl",): known.word_set("-K --config"),
    ("pandoc",): known.word_set("-F -L -d --filter --lua-filter --pdf-engine --defaults"),
    ("hg",): known.word_set("-R --config --config-file --repository --cwd"),
    ("jj",): known.word_set("-R --config --config-file --repository"),
    ("svn",): known.word_set("--config-option --config-dir"),
    ("kubectl",): known.word_set("--kubeconfig"),
    ("helm",): known.word_set("--kubeconfig --post-renderer"),
    **dict.fromkeys([("apt",), ("apt-get",)], known.word_set("-o -c --option --config-file")),
    ("rpm",): known.word_set("-E -D --eval --define --pipe --rcfile --macros"),
    ("dpkg",): known.word_set("--pre-invoke --post-invoke"),
    ("git",): known.word_set("""
        --upload-pack --receive-pack --exec --config --template --open-files-in-pager --ext-diff --textconv --extcmd
        --tool --git-dir --work-tree --separate-git-dir
    """),
    ("git", "archive"): known.word_set("--remote"),
    ("git", "bisect"): known.word_set("run visualize view"),
    ("git", "clone"): known.word_set("-c -u"),
    ("git", "ls-remote"): known.word_set("-u"),
    **dict.fromkeys([("git", name) for name in ("merge", "pull", "rebase")], known.word_set("-s --strategy")),
    ("git", "push"): known.word_set("-o --push-option --recurse-submodules"),
    ("git", "rebase"): known.word_set("-x -s --strategy"),
    ("git", "submodule"): known.word_set("foreach"),
    **dict.fromkeys([(name,) for name in (*known.BUILDERS, "ninja", "scons", "meson")], _ELSEWHERE),
    ("make",): _ELSEWHERE | {"-E"},
    ("gmake",): _ELSEWHERE | {"-E"},
    ("npm",): _ELSEWHERE | known.word_set("-w --workspace --workspaces"),
    ("pnpm",): _ELSEWHERE | known.word_set("-r -F --recursive --filter --filter-prod"),
    ("go", "env"): known.word_set("-w"),
    ("meson", "devenv"): known.word_set("devenv"),
    ("gradle",): _ELSEWHERE | known.word_set("-I* -b* -c* -p* -D*"),
    ("mvn",): _ELSEWHERE | known.word_set("-s* -gs* -t* -gt* -Dmaven.ext*"),
    ("dotnet",): _ELSEWHERE | known.word_set("-p:* /p:* -property:* /property:*"),
    ("bazel",): known.word_set("--run_under --bazelrc --override_*"),
    ("cmake",): known.word_set("""
        -P* -E* -C* -D* -S* --build --install --preset --workflow --open --toolchain --find-package
    """),
    ("ctest",): known.word_set("-S* --build-and-test --test-dir --preset"),
    ("javac",): known.word_set("@* -J* -processor* --processor* -Xplugin*"),
    ("rustc",): known.word_set("@* -C* --codegen -Z*"),
    **dict.fromkeys([(name,) for name in _COMPILERS], _COMPILES),
}
"""Options, and words of subcommands, with which other programs run commands, or those of another directory or file.
Those with `*` are patterns of whole words."""

_NUMBERED: Final = re.compile(r"[-.]?\d[\d.]*")
_PLAINLY_NAMED: Final = (
    known.INTERPRETERS | known.SHELLS | _EXACT | _NEVER | frozenset(name for name, *_ in _RUNNING_FLAGS)
)

_CONFIGURES: Final = known.word_set("get list set unset")
_SETTABLE: Final = known.word_set("make gmake just task rake scons")
"""Programs that take any word with `=` for a variable, which may say what to run: `SHELL=./x`, `x!=y`."""

_UNKNOWN: Final = "$"
"""Stands for a word that only the shell knows, and that may be such an option."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern of what is allowed or denied; the module's docstring describes its text."""

    text: str

    @classmethod
    def read(cls, text: object) -> Rule:
        """Return the rule that a user wrote.

        Raises:
            ConfigError: if it is not text, or could match nothing.
        """
        if not isinstance(text, str) or not text.strip() or text.strip() in ("=", EDIT, MCP):
            raise ConfigError(
                f'{text!r} is not a pattern of commands; write one like "git diff *", "edit:docs/*" or "mcp:github_*"'
            )
        return cls(text.strip())

    def matches(self, part: ShellPart, *, through_wrappers: bool = False) -> bool:
        """Return whether the rule matches a part of a command line.

        Args:
            part: the part.
            through_wrappers: also match what a wrapper such as `sudo` runs, and a program by its name without its path;
                for rules that deny.
        """
        if self.text.startswith((EDIT, MCP)):
            return False
        if self.text.startswith("="):
            return part.text == self.text[1:]
        pattern = self.text.split()
        if through_wrappers:
            return any(_match(pattern, words) for words in _readings(part.words))
        words = _inner(part.words)
        if pattern == ["*"]:
            return True
        # `find *` does not match `find -delete`, nor `git *` the command `git -c …`, unless the rule names that word.
        return _match(pattern, words) and all(word in pattern for word in _risky_words(words))

    def names(self, prefix: str, name: str) -> bool:
        """Return whether the rule, one with this prefix (`EDIT` or `MCP`), matches a file or an MCP tool."""
        return self.text.startswith(prefix) and fnmatchcase(name, self.text[len(prefix) :])


def rule_for(part: ShellPart) -> Rule | None:
    """Return the rule that an answer of "always" creates for a part: its program and sub-command, or its exact text.

    None if no rule can be safe, because only the shell knows what the part will run.
    """
    words = _inner(part.words)
    if not words or words[0] is None or _runs_unknown(words):
        return None
    if words[0] in _REDIRECTIONS or any(_risky_words(words)):
        return None if None in words else Rule(f"={part.text}")
    named = words[: _command_length(words)]
    if any((word or "").startswith("-") and word != "-m" for word in named):
        return None if None in words else Rule(f"={part.text}")  # the subcommand may stand behind its option
    if not all(word is not None and _PLAIN.fullmatch(word) for word in named):
        return None
    return Rule(" ".join([*map(str, named), "*"]))


class RememberedRules:
    """The remembered rules of one project.

    Raises:
        ConfigError: if the file cannot be read, or has another content than `add` writes.
    """

    def __init__(self, path: Path, project: Path) -> None:
        self.path = path
        self._project = str(project)
        self.allow: list[Rule] = []
        self.deny: list[Rule] = []
        self.repositories: dict[str, bool] = {}
        """Digests of a repository's settings, and whether the user trusts them."""
        self._load(self._read())

    def add(self, rule: Rule, *, allowed: bool) -> None:
        """Remember a rule.

        Raises:
            OSError: if the file cannot be written.
        """
        self._change({"allow" if allowed else "deny": [rule.text]})

    def forget(self, rule: Rule) -> None:
        """Forget a rule, whether it allows or denies.

        Raises:
            OSError: if the file cannot be written.
        """
        self._change({}, without=rule.text)

    def add_repository(self, digest: str, *, trusted: bool) -> None:
        """Remember whether the user trusts the settings of the project's repository.

        Raises:
            OSError: if the file cannot be written.
        """
        self._change({_TRUSTED if trusted else _UNTRUSTED: [digest]})

    def _change(self, added: Mapping[str, Sequence[str]], *, without: str | None = None) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # The file is read again under its lock, because another session may have added rules.
        with FileLock(f"{self.path}.lock"):
            projects = self._read()
            rules = projects.get(self._project, {})
            projects[self._project] = changed = {}
            for kind in _KINDS:
                texts = dict.fromkeys([*rules.get(kind, ()), *added.get(kind, ())])
                texts.pop(without, None)
                if texts or kind in ("allow", "deny"):
                    changed[kind] = list(texts)
            replace_file(self.path, json.dumps(projects, indent=2, ensure_ascii=False).encode())
        self._load(projects)

    def _read(self) -> dict[str, dict[str, list[str]]]:
        try:
            data = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            raise ConfigError(f"cannot read the approvals {self.path}: {error}; repair or delete the file") from error
        if not isinstance(data, dict) or not all(_is_rules(rules) for rules in data.values()):
            raise ConfigError(f"the approvals {self.path} are not lists of rules by project; repair or delete the file")
        return data

    def _load(self, projects: dict[str, dict[str, list[str]]]) -> None:
        rules = projects.get(self._project, {})
        self.allow = [Rule(text) for text in rules.get("allow", ())]
        self.deny = [Rule(text) for text in rules.get("deny", ())]
        self.repositories = dict.fromkeys(rules.get(_TRUSTED, ()), True) | dict.fromkeys(
            rules.get(_UNTRUSTED, ()), False
        )


def _is_rules(rules: object) -> bool:
    if not isinstance(rules, dict) or not rules.keys() <= set(_KINDS):
        return False
    if not all(isinstance(texts, list) for texts in rules.values()):
        return False
    return all(isinstance(text, str) for texts in rules.values() for text in texts)


def _readings(words: Sequence[str | None]) -> list[list[str | None]]:
    """Return every way to read a command: as it is, by its program's name alone, and as what a wrapper may run."""
    readings = [list(words)]
    if words[0] not in _REDIRECTIONS and any(_risky_words(words)):
        readings += [list(words[start:]) for start in range(1, len(words))]
        readings += [[words[0], *words[start:]] for start in range(2, len(words))]
        readings += [list(word.split()) for word in words if word and " " in word]
    return readings + [[basename(first), *tail] for first, *tail in readings if first is not None]


def _match(pattern: Sequence[str], words: Sequence[str | None]) -> bool:
    if pattern[-1:] == ["*"]:
        pattern, words = pattern[:-1], words[: len(pattern) - 1]
    return len(pattern) == len(words) and all(
        word is not None and fnmatchcase(word, expected) for word, expected in zip(words, pattern, strict=True)
    )


def _inner(words: Sequence[str | None]) -> list[str | None]:
    """Return the words behind transparent wrappers."""
    command = list(words)
    while command and command[0] in _TRANSPARENT:
        inner = inner_words([word or "$" for word in command[1:]], _TRANSPARENT[command[0]])
        own = command[1 : len(command) - len(inner)]
        # Behind `time` some shells take an assignment for one, and it may say what the program loads. Options of a
        # wrapper may take the word behind them for a value, or name a file to write.
        if not inner or any(word is None or _ASSIGNMENT.match(word) or _is_strange(word) for word in own):
            break
        command = command[len(command) - len(inner) :]
    return command


def _is_strange(word: str) -> bool:
    """Whether a word of a wrapper is an option other than `-p`, `-n`, a number or a mode of `stdbuf`."""
    return word.startswith("-") and not _WRAPPERS_OPTION.fullmatch(word)


def _program(word: str) -> str:
    """Return a program's name without its path, and without a version or a platform where it is known without these."""
    name = basename(word)
    stem = _NUMBERED.sub("", name) if name not in _PLAINLY_NAMED else name
    for known_name in (stem, stem.rpartition("-")[2]):
        if known_name in (_PLAINLY_NAMED if known_name == stem else _COMPILERS):
            return known_name
    return name


def _wraps(words: Sequence[str | None]) -> bool:
    """Whether the first two words run the command behind them, such as `uv run`."""
    return len(words) > 1 and (words[0], words[1]) in known.WRAPPING and words[1] != "pip"


def _command_length(words: Sequence[str | None]) -> int:
    """Return how many words name the program and its sub-command."""
    name = _program(words[0] or "")
    if _wraps(words):
        return 2 + _command_length(words[2:])
    if name in known.INTERPRETERS or name in known.SHELLS:
        return 3 if list(words[1:2]) == ["-m"] else 2
    if name not in _WITH_SUBCOMMANDS:
        return 1
    if (name, words[1] if len(words) > 1 else None) in _TWO_SUBCOMMANDS or name in _ALWAYS_TWO_SUBCOMMANDS:
        return 3
    return 2


def _runs_unknown(words: Sequence[str | None]) -> bool:
    """Whether the program's input, or an expansion of the shell, decides what runs."""
    if not words:
        return True
    if _wraps(words):
        return _runs_unknown(words[2:])
    name = _program(words[0] or "")
    if name in known.INTERPRETERS or name in known.SHELLS:
        return not any(word is None or not word.startswith("-") or word in ("-m", "--version") for word in words[1:])
    return name in _NEVER


def _risky_words(words: Sequence[str | None]) -> Iterator[str]:
    """Yield the words that make a rule remember a command's exact text alone."""
    first = words[0] if words else None
    if first is None:
        return
    name = _program(first)
    second = words[1] if len(words) > 1 else ""
    if _ASSIGNMENT.match(first) or name in _EXACT or name in _NEVER or name in _TRANSPARENT:
        yield first
    elif _wraps(words):
        inner = words[2] if len(words) > 2 else None
        if inner is None or inner.startswith("-"):
            yield str(second)
        yield from _risky_words(words[2:])
    elif name in known.INTERPRETERS or name in known.SHELLS:
        if second is None or (second.startswith("-") and second != "-m"):
            yield second or _UNKNOWN
    else:
        is_option = second is None or second.startswith(("-", "+"))  # `git -c alias.x=!command x`
        if (name in _WITH_SUBCOMMANDS and is_option) or (second and second not in _COVERED.get(name, {second})):
            yield second or _UNKNOWN
        yield from _risky_options(name, words[1:])


def _risky_options(name: str, words: Sequence[str | None]) -> Iterator[str]:
    subcommand = words[0] or "" if words else ""
    key = (name, subcommand) if name == "git" else (name,)
    usages = USAGES.get(key, ()) if name in _WATCHED else ()
    flags = _RUNNING_FLAGS.get((name,), frozenset()) | _RUNNING_FLAGS.get((name, subcommand), frozenset())
    if key == ("git", "config"):
        named = [word for word in words[1:] if word and not word.startswith("-") and word not in _CONFIGURES]
        yield from (word for word in named[:1] if not is_harmless(word))
    for position, word in enumerate(words):
        if word is None:
            if name in _WATCHED or flags:
                yield _UNKNOWN
            continue
        # A value that looks like an option counts as one, also behind `--`, which may be a value itself.
        is_option = word[:1] == "-" and word != "--"
        known_by = [usage for usage in usages if usage.split(word)]
        is_unknown = bool(usages) and is_option and not known_by
        is_set = name in _SETTABLE and "=" in word and not is_option
        is_old_cluster = name == "tar" and position == 0 and not is_option
        is_telling = is_option and not known_by and _TELLING.search(word.partition("=")[0]) is not None
        is_own = name == "git" and ".git" in re.split("[/=:]", word)
        if is_unknown or is_set or is_own or is_telling or _is_flag(f"-{word}" if is_old_cluster else word, flags):
            yield word


def _is_flag(word: str, flags: frozenset[str]) -> bool:
    """Whether a word is one of some options: abbreviated, with a value, or among letters that are written together."""
    name = word.partition("=")[0].replace("--no-", "--")  # npm takes `--no-script-shell x` for `--script-shell x`
    if name in flags or f"-{name}" in flags or any(fnmatchcase(word, flag) for flag in flags if "*" in flag):
        return True
    if word.startswith("--"):
        # Go's flags have one dash or two.
        return name[1:] in flags or (len(name) > 2 and any(flag.startswith(name) for flag in flags))
    letters = {flag[1] for flag in flags if len(flag) == 2 and flag != "@*"}
    return word.startswith("-") and not letters.isdisjoint(word[1:])
