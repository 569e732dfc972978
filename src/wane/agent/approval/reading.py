"""Which parts of a command line only read below the session's directory, so that nobody needs to be asked.

The file tools read there without asking, too. The judgement decides what runs, so it knows a few programs and refuses
the rest: a program counts only by its bare name, and with words that the shell leaves as they are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wane.tools import programs as known

if TYPE_CHECKING:
    from wane.agent.approval.commands import ShellPart

_READING: Final = known.word_set("""
    ls cat head tail wc pwd echo grep egrep fgrep rg find stat du df nl cut tr rev tac sort uniq cmp comm diff
    basename dirname realpath readlink which whoami uname
""")
"""Programs that only read, without the options below."""

_UNSAFE: Final = {
    "find": re.compile(r"-(exec|ok|delete|fprint|fls|follow|L$|H$|files0-from)"),
    "rg": re.compile(r"--(pre|hostname-bin|follow)|-\w*L"),
    "sort": re.compile(r"-\w*[oT]|--(o|c(?!heck)|t)"),
    "uniq": re.compile(r"[^-]"),  # it writes its second file
    "tail": re.compile(r"-\w*[fF]|--(f|retry)"),
    "ls": re.compile(r"-\w*L|--deref"),
    "git": re.compile(r"-\w*O|--(o(?!neline|nly)|ext|open)"),
    **dict.fromkeys(("grep", "egrep", "fgrep"), re.compile(r"-\w*R|--deref")),
}
"""Options that run, write or remove something, follow links out of the directory, or never end."""

_GIT_READING: Final = known.GIT_REVIEW | known.word_set("blame grep ls-files ls-tree rev-parse describe merge-base")
_GIT_LISTING: Final = {
    "branch": known.word_set("-a -r -v -vv -av --list --all --remotes --show-current"),
    "remote": known.word_set("-v"),
    "stash": known.word_set("list"),
    "tag": known.word_set("-l --list"),
}
"""Commands of Git that only list if they have no other arguments."""

_LINES: Final = re.compile(r"\d+(,(\d+|\$))?p")
"""The script of `sed -n` that prints some lines."""

_PATTERN: Final = re.compile(r"[*?\[\]{}]")


def only_reads(part: ShellPart, parts: Sequence[ShellPart], directory: Path) -> bool:
    """Return whether a part of a command line only reads, and only below the directory.

    Args:
        part: the part.
        parts: all parts of the line. One `cd` may change the directory that its paths begin at.
        directory: where the line runs.
    """
    words = [word for word in part.words if word is not None]
    if len(words) < len(part.words) or not _is_reading(words):
        return False
    unsafe = _UNSAFE.get(words[0])
    if unsafe and any(map(unsafe.match, words[1:])):
        return False
    entered = [other.words[1] for other in parts if other.words[0] == "cd" and len(other.words) == 2]
    if len(entered) > 1:
        return False
    starts = [directory, *(directory / target for target in entered if target is not None)]
    return all(_stays_below(word, part.text, starts, directory) for word in words[1:])


def _is_reading(words: Sequence[str]) -> bool:
    if words[0] == "sed":
        plain = not any(word.startswith("-") for word in words[3:])
        return words[1:2] == ["-n"] and bool(_LINES.fullmatch("".join(words[2:3]))) and plain
    if words[0] != "git":
        return words[0] in _READING
    command, arguments = (words[1] if len(words) > 1 else ""), words[2:]
    if command in _GIT_LISTING:
        # `git stash` without arguments changes something.
        return set(arguments) <= _GIT_LISTING[command] and (command != "stash" or bool(arguments))
    return command in _GIT_READING


def _stays_below(word: str, text: str, starts: Sequence[Path], directory: Path) -> bool:
    """Whether a word names nothing outside the directory, neither directly nor over a link."""
    names = [word]
    if word.startswith("-"):
        if "/" in word or "~" in word:
            return False
        names = [word[2:], word.partition("=")[2]]
    elif _PATTERN.search(word) and f"'{word}'" not in text and f'"{word}"' not in text:
        return False  # the shell may expand it to any option or link
    if word.startswith("~") or ".." in word.split("/"):
        return False
    try:
        root = os.path.realpath(directory)
        paths = [os.path.realpath(start / name) for start in starts for name in names]
        return all(Path(path).is_relative_to(root) for path in paths)
    except (OSError, ValueError):
        return False
