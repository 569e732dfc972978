"""Recognises shell commands that only search or list; their output is as recoverable as a search tool's."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

from wane.tools import programs as known
from wane.tools.commands import bare_words, judge_command
from wane.tools.judgement import Activity
from wane.tools.paths import basename
from wane.tools.shell import Simple, parse

_GIT: Final = frozenset({"grep", "ls-files", "ls-tree", "ls-remote"})


def only_searches(line: str) -> bool:
    """Whether a command line only searches or lists, with nothing but filters of the output beside it.

    Args:
        line: the command line.
    """
    if judge_command(line).activity is not Activity.EXPLORE:
        return False
    kinds = {_kind(simple) for simple in parse(line)}
    return "search" in kinds and "other" not in kinds


def _kind(simple: Simple) -> str:
    words = bare_words(simple.words)
    name = basename(words[0]) if words else ""
    if not words or name in known.NEUTRAL:
        return "nothing"
    if name in known.LISTING or (name == "git" and _GIT.intersection(words[1:])):
        return "other" if _shows_files(words) else "search"
    if name in known.SHELLS:
        line = next((after for flag, after in pairwise(words) if re.fullmatch(r"-\w*c", flag)), "")
        return "search" if only_searches(line) else "other"
    # With a file to read it shows that file; after `xargs` it shows every file that was found.
    alone = not simple.reads and not any(_is_file(word) for word in words[1:]) and "xargs" not in simple.words
    return "filter" if name in known.FILTERS and alone else "other"


def _shows_files(words: list[str]) -> bool:
    """Whether `find -exec` shows the contents of the files that it finds."""
    run = next((place for place, word in enumerate(words) if word in ("-exec", "-execdir", "-ok")), None)
    return run is not None and basename("".join(words[run + 1 : run + 2])) not in known.LISTING


def _is_file(word: str) -> bool:
    return not word.startswith(("-", "+", "$()")) and ("." in word or "/" in word)
