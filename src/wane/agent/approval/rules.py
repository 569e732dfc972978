"""Rules: patterns of what the user allows or denies, and what "always" covers.

A rule is a line of text, one of:

- `git status`: the command with exactly these words
- `git diff *`: the command with these words and any others after them; within a word, `*` stands for any characters
- `> build/*`: a redirection of output into such a file
- `=make | tee log`: exactly this text
- `edit:docs/*`: changes of such files by the file tools
- `mcp:github_*`: such tools of MCP servers
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from wane.agent.approval.commands import Part
from wane.core.errors import ConfigError
from wane.tools import programs as known
from wane.tools.commands import inner_words
from wane.tools.paths import basename

EDIT: Final = "edit:"
MCP: Final = "mcp:"

_PLAIN: Final = re.compile(r"[\w./+@:,%~^-]+")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*(\[[^]]*\])?\+?=")
_PASSING: Final = {"time": 0, "timeout": 1, "nice": 0, "nohup": 0, "stdbuf": 0}
"""Wrappers that do not change what the command behind them does, by their number of own arguments."""

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
"""Programs whose first argument says what they do."""

_DEEPER: Final = {
    ("npm", "run"), ("pnpm", "run"), ("yarn", "run"), ("bun", "run"), ("deno", "task"), ("docker", "compose"),
    ("git", "remote"), ("git", "stash"), ("git", "worktree"), ("uv", "pip"), ("uv", "tool"), ("wane", "lab"),
}  # fmt: skip
_ALWAYS_DEEPER: Final = known.word_set("gh glab aws gcloud az")

_EXACT: Final = (
    (known.WRAPPERS.keys() - _PASSING.keys())
    | known.word_set("source . trap alias export declare typeset local readonly unset set shopt enable hash cd pushd")
    | known.word_set("ssh su chroot unshare nsenter flock entr uvx pipx rm dd shred mkfs truncate crontab at")
)
"""Programs that run other commands, change how later ones are read, or destroy: only their exact text is remembered."""

_UNTOLD: Final = known.word_set("xargs parallel eval coproc")
"""Programs that run what only their input or the shell knows: never remembered."""

_RUNNING_FLAGS: Final[dict[str, frozenset[str]]] = {
    "find": known.word_set("-exec -execdir -ok -okdir -delete -fprint -fprintf -fprint0 -fls"),
    "fd": known.word_set("-x -X --exec --exec-batch"),
    "fdfind": known.word_set("-x -X --exec --exec-batch"),
    "rg": known.word_set("--pre --hostname-bin"),
    "tar": known.word_set("-I --to-command --checkpoint-action --use-compress-program --rsh-command"),
    "sort": known.word_set("--compress-program"),
}
"""Options with which a program that otherwise only looks runs or removes something."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern of what is allowed or denied, as the module's text describes it."""

    text: str

    @classmethod
    def read(cls, text: object) -> Rule:
        """Return the rule that a user wrote.

        Raises:
            ConfigError: if it is no text, or matches nothing.
        """
        if not isinstance(text, str) or not text.strip() or text.strip() in ("=", EDIT, MCP):
            raise ConfigError(
                f'{text!r} is no pattern of commands; write one such as "git diff *", "edit:docs/*" or "mcp:github_*"'
            )
        return cls(text.strip())

    def matches(self, part: Part, *, widely: bool = False) -> bool:
        """Return whether the rule is about a part of a command line.

        Args:
            part: the part.
            widely: for a rule that denies: look behind wrappers such as `sudo` too, and at the program's name alone.
        """
        if self.text.startswith((EDIT, MCP)):
            return False
        if self.text.startswith("="):
            return part.text == self.text[1:]
        pattern = self.text.split()
        if widely:
            return any(_match(pattern, words) for words in _readings(part.words))
        words = _inner(part.words)
        if pattern == ["*"]:
            return True
        # `find *` is not about `find -delete`, nor `*` in `git *` about `git -c …`: the rule itself must say so.
        return _match(pattern, words) and ((told := _exactly(words)) is None or told in pattern)

    def names(self, prefix: str, name: str) -> bool:
        """Return whether the rule is about a file (`EDIT`) or a tool of an MCP server (`MCP`)."""
        return self.text.startswith(prefix) and fnmatchcase(name, self.text[len(prefix) :])


def covering(part: Part) -> Rule | None:
    """Return the rule that "always" remembers for a part: its program and sub-command, or exactly its text.

    None if nothing can be remembered, because only the shell knows what will run.
    """
    words = _inner(part.words)
    if not words or words[0] is None or _untold(words):
        return None
    if words[0] == ">" or _exactly(words) is not None:
        return None if None in words else Rule(f"={part.text}")
    length = _subcommand(words)
    named = words[:length]
    if not all(word is not None and _PLAIN.fullmatch(word) for word in named):
        return None
    return Rule(" ".join([*map(str, named), "*"]))


def _readings(words: Sequence[str | None]) -> list[list[str | None]]:
    """Return what a command may be taken for: itself, its program by name alone, and what a wrapper may run."""
    found = [list(words)]
    if words[:1] != (">",) and _exactly(words):
        found += [list(words[start:]) for start in range(1, len(words))]
        found += [[words[0], *words[start:]] for start in range(2, len(words))]
        found += [list(word.split()) for word in words if word and " " in word]
    return found + [[basename(first), *rest] for first, *rest in found if first is not None]


def _match(pattern: Sequence[str], words: Sequence[str | None]) -> bool:
    if pattern[-1:] == ["*"]:
        pattern, words = pattern[:-1], words[: len(pattern) - 1]
    return len(pattern) == len(words) and all(
        word is not None and fnmatchcase(word, expected) for word, expected in zip(words, pattern, strict=True)
    )


def _inner(words: Sequence[str | None]) -> list[str | None]:
    """Return the words behind wrappers that change nothing."""
    left = list(words)
    while left and left[0] in _PASSING:
        known_words = [word or "$" for word in left]
        inner = inner_words(known_words[1:], _PASSING[left[0]])
        if not inner:
            break
        left = left[len(left) - len(inner) :]
    return left


def _wraps(words: Sequence[str | None]) -> bool:
    """Whether the first two words run the command behind them, such as `uv run`."""
    return len(words) > 1 and (words[0], words[1]) in known.WRAPPING and words[1] != "pip"


def _subcommand(words: Sequence[str | None]) -> int:
    """Return how many words name what a command does."""
    name = basename(words[0] or "")
    if _wraps(words):
        return 2 + _subcommand(words[2:])
    if name in known.INTERPRETERS or name in known.SHELLS:
        return 3 if list(words[1:2]) == ["-m"] else 2
    if name not in _WITH_SUBCOMMANDS:
        return 1
    if (name, words[1] if len(words) > 1 else None) in _DEEPER or name in _ALWAYS_DEEPER:
        return 3
    return 2


def _untold(words: Sequence[str | None]) -> bool:
    """Whether what runs comes from the input, or from where only the shell can see it."""
    if not words:
        return True
    if _wraps(words):
        return _untold(words[2:])
    name = basename(words[0] or "")
    if name in known.INTERPRETERS or name in known.SHELLS:
        return not any(word is None or not word.startswith("-") or word in ("-m", "--version") for word in words[1:])
    return name in _UNTOLD


def _exactly(words: Sequence[str | None]) -> str | None:
    """Return the word for which a command is remembered only by its exact text; None if it is like any other."""
    first = words[0] if words else None
    if first is None:
        return None
    name = basename(first)
    if _ASSIGNMENT.match(first) or name in _EXACT or name in _UNTOLD or name in _PASSING:
        return first
    if _wraps(words):
        inner = words[2] if len(words) > 2 else None
        return words[1] if inner is None or inner.startswith("-") else _exactly(words[2:])
    if name in known.INTERPRETERS or name in known.SHELLS:
        second = words[1] if len(words) > 1 else None
        return second if second is None or (second.startswith("-") and second != "-m") else None
    if name in _WITH_SUBCOMMANDS and len(words) > 1 and (words[1] or "").startswith("-"):
        return words[1]  # `git -c alias.x=!command x`
    flags = _RUNNING_FLAGS.get(name, frozenset())
    return next((word for word in words[1:] if word is not None and word.partition("=")[0] in flags), None)
