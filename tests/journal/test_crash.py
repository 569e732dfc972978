"""Two writers at once, and writers that are killed: in processes of their own."""

from __future__ import annotations

import gc
import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType

import pytest

from tests.journal.support import begin, python, user_record
from wane.core.errors import SessionLockedError
from wane.journal import Journal, MessageRecord, read

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs fork and SIGKILL")

HOLD = """
import subprocess, sys, time
from pathlib import Path
from wane.journal import Journal
journal = Journal.open(Path(sys.argv[1]))
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(child.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.full
def test_a_second_process_is_refused_until_the_first_ends(tmp_path: Path) -> None:
    path = begin(tmp_path)
    holder = python("-c", HOLD, str(path))
    assert holder.stdout is not None
    grandchild = int(holder.stdout.readline())
    try:
        with pytest.raises(SessionLockedError, match=r"is being written by another process"):
            Journal.open(path)
        assert read(path).records == ()
        holder.kill()
        holder.wait()
        # What the first one started, a shell command say, lives on and must not keep the lock.
        os.kill(grandchild, 0)
        with Journal.open(path) as journal:
            journal.append(user_record("mine now"))
    finally:
        os.kill(grandchild, signal.SIGKILL)
        holder.kill()
        holder.wait()
        holder.stdout.close()


def write_for_ever(path: Path, sender: int, seed: int) -> None:
    """Append records, small and huge, and tell the number of each when it is acknowledged."""
    rng = random.Random(seed)
    with Journal.open(path, fsync=False) as journal:
        number = len(journal.contents.records)
        while True:
            size = rng.choice((10, 1_000, 100_000, 2_000_000))
            journal.append(MessageRecord(message={"number": number, "content": "x" * size}))
            journal.commit()
            os.write(sender, b"%d\n" % number)
            number += 1


def kill_a_writer(path: Path, seed: int) -> int:
    """Start a writer, kill it at some moment, and return the number of the last record that it was promised."""
    receiver, sender = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            write_for_ever(path, sender, seed)
        finally:
            os._exit(1)
    os.close(sender)
    rng = random.Random(seed)
    with os.fdopen(receiver, "rb") as acknowledged:
        seen = [int(acknowledged.readline()) for _ in range(rng.randrange(1, 12))]
        time.sleep(rng.random() * 0.01)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        seen += [int(line) for line in acknowledged if line.endswith(b"\n")]
    return seen[-1]


@pytest.mark.full
def test_kill_9_loses_at_most_the_record_being_written(tmp_path: Path) -> None:
    path = begin(tmp_path)
    for seed in range(40):
        promised = kill_a_writer(path, seed)
        with Journal.open(path, fsync=False) as journal:
            torn = journal.repaired is not None
            assert torn == journal.contents.torn
            numbers = [
                record.message["number"] for record in journal.contents.records if isinstance(record, MessageRecord)
            ]
        assert numbers == list(range(len(numbers)))
        # One more may be whole than was acknowledged, when the writer died between the two.
        assert len(numbers) in (promised + 1, promised + 2)
        if len(numbers) > 15:
            path = begin(tmp_path / str(seed))


class Interrupt(BaseException):
    """What a signal's handler raises, as Ctrl-C does."""


def interrupt(_: int, frame: FrameType | None) -> None:
    """Raise, if the signal came while a record was being appended."""
    while frame is not None:
        if frame.f_code is Journal.append.__code__:
            raise Interrupt
        frame = frame.f_back


def test_an_interrupt_at_any_moment_leaves_a_file_that_goes_on(tmp_path: Path) -> None:
    rng = random.Random(5)
    acknowledged: list[int] = []
    # A destructor of somebody else's garbage is no place for an interrupt.
    gc.collect()
    gc.disable()
    former = signal.signal(signal.SIGALRM, interrupt)
    # Often enough that some appends are interrupted again while they clean up.
    signal.setitimer(signal.ITIMER_REAL, 1e-4, 7e-5)
    try:
        with Journal.create(tmp_path, cwd=tmp_path, message_format="openai", fsync=False) as journal:
            for number in range(2_000):
                with suppress(Interrupt):
                    journal.append(MessageRecord(message={"number": number, "content": "x" * rng.choice((10, 20_000))}))
                    acknowledged.append(number)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)
        gc.enable()
    numbers = [record.message["number"] for record in read(journal.path).records if isinstance(record, MessageRecord)]
    assert numbers == sorted(set(numbers))
    assert set(acknowledged) <= set(numbers)
