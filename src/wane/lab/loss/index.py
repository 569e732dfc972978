"""An index of the content that a session's model calls needed, built once for all strategies and budgets."""

from __future__ import annotations

import json
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from wane.core import DEFAULT_TOOL_CLASSES, DELIMITER, Kind, ToolClass
from wane.identifiers import candidates, identifiers, spoken
from wane.lab.loss.files import Files
from wane.lab.session import RecordedSession

NONE = -1


class Index:
    """The identifiers, edits, pairs and user turns of a session. Runs share it, so do not change it.

    It keeps only identifiers that some call's output uses: memory grows with the model's output, not with the output of
    its tools.

    Attributes:
        session: the session.
        tokens: tokens of each part.
        users: items that are user turns, ascending.
        results: items that are results, ascending.
        is_result: by item, 1 for a result, else 0.
        partner: by item, a call's result or a result's call; `NONE` for other items and open calls.
        lengths: by identifier, its length in characters.
        postings: by identifier, the items that hold it, ascending.
    """

    def __init__(self, session: RecordedSession, tokens: Sequence[int]) -> None:
        self.session = session
        self.tokens = tokens
        parts = session.parts
        self.users = [index for index, part in enumerate(parts) if part.kind is Kind.USER]
        self.results = [index for index, part in enumerate(parts) if part.kind is Kind.RESULT]
        self.is_result = bytearray(part.kind is Kind.RESULT for part in parts)
        self.partner = _partners(session)
        self._ids: dict[str, int] = {}
        self.postings: list[array[int]] = []
        self.lengths = array("i")
        self._use_ids = array("i")
        self._use_counts = array("i")
        self._use_bounds = array("q", [0])
        self._reads = array("i")
        self._read_bounds = array("q", [0])
        self._index_words()
        files = Files(session)
        for call in session.calls:
            self._reads.extend(files.reads_needed(call))
            self._read_bounds.append(len(self._reads))
        self._repeats = _repeats(session, self.partner)

    def uses(self, call: int) -> Iterator[tuple[int, int]]:
        """Return the identifiers that a model call uses and that occurred before it.

        Returns:
            Pairs of an identifier and the number of its postings before the call.
        """
        start, stop = self._use_bounds[call], self._use_bounds[call + 1]
        return zip(self._use_ids[start:stop], self._use_counts[start:stop], strict=True)

    def needed_reads(self, call: int) -> Sequence[int]:
        """Return, for each file that a call edits and that had been read before, the item that showed it last."""
        return self._reads[self._read_bounds[call] : self._read_bounds[call + 1]]

    def repeated(self, call: int) -> Sequence[int]:
        """Return, for each call of a tool that had been made before, the item of the latest result that it had then."""
        return self._repeats.get(call, ())

    def holds(self, text: str) -> frozenset[int]:
        """Return the identifiers in a text that any call uses."""
        ids = self._ids
        return frozenset(ids[word] for words in candidates(text) for word in ids.keys() & words)

    def _index_words(self) -> None:
        ids, parts, calls = self._ids, self.session.parts, self.session.calls
        used: list[array[int]] = []
        for call in calls:
            output_words = {
                word for part in parts[call.first : call.stop] for text in spoken(part) for word in identifiers(text)
            }
            # Sorted, so that every run gives the same numbers.
            used.append(array("i", [ids.setdefault(word, len(ids)) for word in sorted(output_words)]))
        self.postings = [array("i") for _ in self._ids]
        for index, part in enumerate(parts):
            for text in spoken(part):
                for word in self.holds(text):
                    posting = self.postings[word]
                    if not posting or posting[-1] != index:
                        posting.append(index)
        for call, words in zip(calls, used, strict=True):
            for word in words:
                before = bisect_left(self.postings[word], call.first)
                if before:
                    self._use_ids.append(word)
                    self._use_counts.append(before)
            self._use_bounds.append(len(self._use_ids))
        # Nothing looks for identifiers that occur first where they are used.
        used_before, nothing = set(self._use_ids), array("i")
        self.lengths = array("i", map(len, ids))
        self.postings = [posting if word in used_before else nothing for word, posting in enumerate(self.postings)]
        self._ids = {text: word for text, word in ids.items() if word in used_before}


def _repeats(session: RecordedSession, partner: Sequence[int]) -> dict[int, list[int]]:
    """By model call, the earlier results of calls that were made again: of the same tool, with the same arguments.

    Calls that change what they name, such as edits, are made again on purpose, and so are marks.
    """
    latest: dict[tuple[str, str], int] = {}
    repeats: dict[int, list[int]] = {}
    for number, call in enumerate(session.calls):
        for index in range(call.first, call.stop):
            part = session.parts[index]
            tool = (part.tool or "").lower()
            if part.kind is not Kind.CALL or DEFAULT_TOOL_CLASSES.get(tool) is ToolClass.DURABLE or tool == DELIMITER:
                continue
            key = tool, _canonical(part.arguments or "")
            if (earlier := latest.get(key)) is not None:
                repeats.setdefault(number, []).append(earlier)
            if partner[index] != NONE:
                latest[key] = partner[index]
    return repeats


def _canonical(arguments: str) -> str:
    """Arguments in a form that does not depend on spaces and the order of keys."""
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments


def _partners(session: RecordedSession) -> array[int]:
    partner = array("i", [NONE]) * len(session.parts)
    waiting: dict[str | None, int] = {}
    for index, part in enumerate(session.parts):
        if part.kind is Kind.CALL:
            waiting[part.call_id] = index
        elif part.kind is Kind.RESULT and part.call_id in waiting:
            call = waiting.pop(part.call_id)
            partner[call], partner[index] = index, call
    return partner
