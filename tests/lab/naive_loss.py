"""The figures of loss by the letter of research/docs/loss.md, written apart from it, with no thought for speed."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from wane.core import Kind
from wane.formats.message_format import Part
from wane.lab.recorded_session import RecordedSession
from wane.strategies.strategy import Slot, Substitute


def naive_identifiers(text: str) -> set[str]:
    for escape, char in (("\\n", "\n"), ("\\t", "\t"), ("\\r", "\r"), ("\\/", "/")):
        text = text.replace(escape, char)
    text = "\n".join(map(without_line_number, text.split("\n")))
    found = set()
    for run in re.split(r"[^A-Za-z0-9_./-]+", text):
        word = run
        while word and word[-1] in "./-":
            word = word[:-1]
        ahead = ""
        while word and word[0] in "./-":
            ahead, word = ahead + word[0], word[1:]
        word = ahead + word if ahead in ("/", ".") else word
        marked = any(char in "_./" for char in word) or any("A" <= char <= "Z" for char in word[1:])
        if len(run) >= 8 and len(word) >= 8 and marked and any(char.isalpha() for char in word):
            found.add(word)
    return found


def without_line_number(line: str) -> str:
    """A line of `grep` around a match, in which hyphens join path, number and line, with the last number apart."""
    pieces = line.split("-")
    for at in range(len(pieces) - 2, 0, -1):
        path, number = "-".join(pieces[:at]), pieces[at]
        stem, dot, extension = path.rpartition(".")
        if (
            number.isascii()
            and number.isdecimal()
            and dot
            and re.fullmatch(r"[A-Za-z]\w*", extension)
            and re.fullmatch(r"[\w./~-]*", stem)
        ):
            return f"{path} {'-'.join(pieces[at + 1 :])}"
    return line


def said_by(part: Part) -> set[str]:
    if part.kind is not Kind.CALL:
        return naive_identifiers(part.text)
    fields = json.loads(part.arguments or "{}")
    return set().union(*(naive_identifiers(value) for value in fields.values()))


@dataclass
class Naive:
    """Judges views of a session whose tools are `read` and `edit`, each with a `path`."""

    session: RecordedSession
    tokens: Sequence[int]
    back: dict[int, int] = field(default_factory=dict)  # fetched items, and the call's first item
    lost: set[int] = field(default_factory=set)
    unknown: int = 0  # uses that a summary without text may have held

    def observe(self, number: int, view: Sequence[Slot]) -> dict[str, object]:
        parts, call = self.session.parts, self.session.calls[number]
        before = range(call.first)
        whole = [slot for slot in view if not isinstance(slot, Substitute)]
        texts = [slot for slot in view if isinstance(slot, Substitute)]

        output = set().union(*(said_by(parts[item]) for item in range(call.first, call.stop)))
        uses: dict[str, list[int]] = {}
        for item in before:
            for word in output & said_by(parts[item]):
                uses.setdefault(word, []).append(item)
        seen = set().union(*(said_by(parts[item]) for item in whole), *(naive_identifiers(s.text) for s in texts))
        missing = {word: items for word, items in uses.items() if word not in seen}
        if any(slot.index is None and not slot.text and slot.tokens for slot in texts):
            self.unknown += len(missing)

        reads = [self.read_of(path, call.first) for path in self.edited_paths(call.first, call.stop)]
        needed = [read for read in reads if read >= 0]
        gone = [read for read in needed if read not in whole]
        users = [item for item in before if parts[item].kind is Kind.USER]
        self.lost |= set(users) - set(whole)
        standing = {*whole, *(slot.index for slot in texts if slot.index is not None)}
        return {
            "uses": len(uses),
            "in_view": len(uses) - len(missing),
            "edits": len(needed),
            "grounded": len(needed) - len(gone),
            "reread": self.fetch(call.first, gone, missing, whole),
            "user_turns": len(users),
            "invalid_pairs": sum((a in standing) != (b in standing) for a, b in self.pairs() if b < call.first),
        }

    def edited_paths(self, first: int, stop: int) -> list[str]:
        calls = [part for part in self.session.parts[first:stop] if part.kind is Kind.CALL and part.tool == "edit"]
        return list(dict.fromkeys(json.loads(part.arguments or "")["path"] for part in calls))

    def read_of(self, path: str, before: int) -> int:
        parts = self.session.parts
        latest = -1
        for call, result in self.pairs():
            if parts[call].tool == "read" and json.loads(parts[call].arguments or "")["path"] == path:
                latest = max(latest, result) if result < before and not parts[result].shows_nothing else latest
        return latest

    def pairs(self) -> list[tuple[int, int]]:
        parts = self.session.parts
        calls = {part.call_id: item for item, part in enumerate(parts) if part.kind is Kind.CALL}
        return [(calls[part.call_id], item) for item, part in enumerate(parts) if part.kind is Kind.RESULT]

    def fetch(self, before: int, gone: list[int], missing: dict[str, list[int]], whole: list[int]) -> tuple[int, int]:
        back = self.back
        results = {item for item, part in enumerate(self.session.parts) if part.kind is Kind.RESULT}
        for item, since in list(back.items()):
            companion = min((result for result in results if result >= since), default=before)
            if companion < before and companion not in whole:
                del back[item]
        fetched = []
        sources = [sorted(results.intersection(items)) for items in missing.values()]
        # The needs whose latest result is oldest come first.
        sources.sort(key=lambda items: items[-1:])
        for items in [[read] for read in gone] + [items for items in sources if items]:
            if not any(item in back for item in items):
                back[items[-1]] = before
                fetched.append(items[-1])
        return len(fetched), sum(self.tokens[item] for item in fetched)
