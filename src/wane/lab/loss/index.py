"""An index of the content that a session's model calls needed, built once for all strategies and budgets."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from wane.core import Kind
from wane.lab.loss.files import Files
from wane.lab.loss.identifiers import candidates, identifiers, spoken
from wane.lab.session import RecordedSession

NONE = -1


class Index:
    """The identifiers, edits, pairs and user turns of a session. Runs share it, so do not change it.

    It keeps only identifiers that some call's output uses: memory grows with the model's output, not with the output of
    its tools.

    Args:
        session: the session.
        tokens: tokens of each part.

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

    def uses(self, call: int) -> Iterator[tuple[int, int]]:
        """Return the identifiers that a model call uses and that occurred before it.

        Args:
            call: number of the model call.

        Returns:
            Pairs of an identifier and the number of its postings before the call.
        """
        start, stop = self._use_bounds[call], self._use_bounds[call + 1]
        return zip(self._use_ids[start:stop], self._use_counts[start:stop], strict=True)

    def needed_reads(self, call: int) -> Sequence[int]:
        """Return, for each file that a call edits and that had been read before, the item that showed it last."""
        return self._reads[self._read_bounds[call] : self._read_bounds[call + 1]]

    def holds(self, text: str) -> frozenset[int]:
        """Return the identifiers in a text that any call uses."""
        ids = self._ids
        return frozenset(ids[word] for words in candidates(text) for word in ids.keys() & words)

    def _index_words(self) -> None:
        ids, parts, calls = self._ids, self.session.parts, self.session.calls
        used: list[array[int]] = []
        for call in calls:
            said = {
                word for part in parts[call.first : call.stop] for text in spoken(part) for word in identifiers(text)
            }
            # Sorted, so that every run gives the same numbers.
            used.append(array("i", [ids.setdefault(word, len(ids)) for word in sorted(said)]))
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
        found, nothing = set(self._use_ids), array("i")
        self.lengths = array("i", map(len, ids))
        self.postings = [posting if word in found else nothing for word, posting in enumerate(self.postings)]
        self._ids = {text: word for text, word in ids.items() if word in found}


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
