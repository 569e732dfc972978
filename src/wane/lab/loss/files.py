"""The reads that a session's edits rest on."""

from __future__ import annotations

from wane.core import Kind
from wane.lab.loss.touching import touched
from wane.lab.session import ModelCall, RecordedSession
from wane.tools.paths import FileMap


class Files:
    """Walks a session's model calls in order and keeps, by file, the result that showed it last.

    Args:
        session: the session.
    """

    def __init__(self, session: RecordedSession) -> None:
        self._parts = session.parts
        self._walked = 0
        self._latest: FileMap[int] = FileMap()
        self._asked: dict[str | None, tuple[str, ...]] = {}

    def reads_needed(self, call: ModelCall) -> list[int]:
        """Return, for each file that a call edits and that had been read before, the result that read it last.

        Args:
            call: the next model call.
        """
        self._walk(call.first)
        edited = [
            path
            for part in self._parts[call.first : call.stop]
            if part.kind is Kind.CALL
            for path in touched(part).edited
        ]
        found = ((path, self._latest.get(path)) for path in dict.fromkeys(edited))
        return [read for _, read in found if read is not None]

    def _walk(self, stop: int) -> None:
        for index in range(self._walked, stop):
            part = self._parts[index]
            if part.kind is Kind.CALL:
                self._asked[part.call_id] = touched(part).shown
            elif part.kind is Kind.RESULT:
                for path in self._asked.pop(part.call_id, ()):
                    self._latest[path] = index
        self._walked = stop
