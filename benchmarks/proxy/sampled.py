"""`wane` with a look at where its processor time goes, in a process of its own.

    python benchmarks/proxy/sampled.py FILE proxy --upstream …

looks at the stack whenever some milliseconds of processor time have passed (4 on most kernels), and counts in which
part of a request it is. When it ends, it writes the counts to FILE, as JSON. Each SIGUSR1 sets them to 0.
"""

from __future__ import annotations

import json
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Final

from wane.cli.main import main

REST: Final = "HTTP, the event loop, the rest"
SYNC: Final = "after the reply: the index, sync to the disk"

PARTS: Final = {
    ("bodies.py", "BodyReader.read"): "parse the body",
    ("bodies.py", "ReadBody.take_messages"): "identify: digests, shapes, the search",
    ("session_index.py", "SessionFinder.find"): "identify: digests, shapes, the search",
    ("client_messages.py", "root_of_request"): "identify: digests, shapes, the search",
    ("message_format.py", "NativeFormat.parts"): "read the messages",
    ("managed_session.py", "EditableOutline.number"): "count tokens",
    ("managed_session.py", "Session.setup"): "count tokens",
    ("managed_session.py", "Session.take"): "take in: infer episodes, the window",
    ("managed_session.py", "Session.__init__"): "take in: infer episodes, the window",
    ("session_index.py", "SessionFinder._store_session"): "create the file",
    ("receipts.py", "Receipts.of"): "receipts: digest the request, and what is new in it",
    ("receipts.py", "Receipts.follow"): "receipts: digest the request, and what is new in it",
    ("memory.py", "CachedSession.append"): "record",
    ("exchange.py", "Exchange.record"): "record",
    ("managed_session.py", "Session.fit"): "the view, and the body upstream",
    ("managed_session.py", "Session.full_history"): "the view, and the body upstream",
    ("exchange.py", "Exchange._place_view"): "the view, and the body upstream",
    ("client.py", "dump_body"): "the view, and the body upstream",
    ("upstream.py", "Upstream.send"): "send it upstream",
    ("exchange.py", "ManagedRequest._stream"): "relay the reply",
    ("exchange.py", "ManagedRequest._end"): "relay the reply",
    ("memory.py", "CachedSession.sync"): SYNC,
    # Processor time while the event loop waits is that of its threads.
    ("selectors.py", "EpollSelector.select"): SYNC,
}
"""Parts of a request, in order, by the functions that do them, with all that they call and is not a part itself."""

_INTERVAL: Final = 0.001  # seconds of processor time
_counts: Counter[str] = Counter()


def part_of(frame: FrameType | None) -> str:
    while frame is not None:
        code = frame.f_code
        part = PARTS.get((code.co_filename.rpartition("/")[2], code.co_qualname))
        if part is not None:
            return part
        frame = frame.f_back
    return REST


def _sample(_: int, frame: FrameType | None) -> None:
    _counts[part_of(frame)] += 1


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, lambda *_: _counts.clear())
    signal.signal(signal.SIGPROF, _sample)
    signal.setitimer(signal.ITIMER_PROF, _INTERVAL, _INTERVAL)
    code = main(sys.argv[2:])
    Path(sys.argv[1]).write_text(json.dumps(_counts))
    sys.exit(code)
