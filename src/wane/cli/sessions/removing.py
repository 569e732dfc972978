"""`wane sessions prune` and `wane sessions delete`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from wane.cli import failure
from wane.cli.failure import UsageError
from wane.cli.sessions.listing import short_id
from wane.cli.sessions.stores import directory_of, id_in_store, where_of, with_store
from wane.cli.terminal.text import count_noun, human_bytes, local_time, say
from wane.cli.top_commands import DeleteOptions, PruneOptions
from wane.core.errors import JournalError, SessionLockedError, SessionNotFoundError, WaneError
from wane.formats import get_format
from wane.journal import Journal, RequestRecord, SessionStore
from wane.journal.heads import id_of
from wane.journal.redaction import rewrite, without_messages
from wane.proxy.store.sqlite_files import DiskIndex
from wane.proxy.store.stores import Store, StoredSession, is_session_id
from wane.rebuilding import rebuild


def prune_sessions(options: PruneOptions) -> int:
    if options.older_than is None:
        raise UsageError("say how old sessions must be to be deleted, such as: wane sessions prune --older-than 30d")
    seconds, dry, where = options.older_than, options.dry_run, where_of(options.store)
    directory = directory_of(where)
    if directory is None:

        async def prune(store: Store) -> Sequence[StoredSession]:
            sessions = await store.unwritten(seconds)
            for session in sessions:
                if not dry:
                    await store.delete(session.id)
                _print_session(session.id, session.written, session.size)
            return sessions

        return _print_total([session.size for session in with_store(where, prune)], dry=dry)
    store, deleted, freed = SessionStore(directory), list[Path](), list[int]()
    for path in store.unwritten_since(datetime.now(UTC) - timedelta(seconds=seconds)):
        try:
            status = path.stat()
            freed.append(store.delete(path, dry=dry))
        except SessionLockedError as error:
            say(str(error))
            continue
        except (FileNotFoundError, SessionNotFoundError):
            continue  # another process has deleted it since it was listed
        deleted.append(path)
        _print_session(id_of(path), datetime.fromtimestamp(status.st_mtime, UTC), status.st_size)
    if not dry:
        _drop_marks(directory, deleted)
    return _print_total(freed, dry=dry)


def delete_sessions(options: DeleteOptions) -> int:
    where = where_of(options.store)
    directory = directory_of(where)
    if options.turn is not None:
        if directory is None or len(options.names) != 1:
            raise UsageError("--turn deletes from one session in a file; of others, delete the whole session")
        path = SessionStore(directory).find(options.names[0])
        _delete_turn(path, options.turn)
        _drop_marks(directory, [path])
        return failure.OK
    if directory is None:

        async def delete(store: Store) -> list[StoredSession]:
            stored = {session.id: session for session in await store.unwritten(0)}
            chosen = dict.fromkeys(id_in_store(name, stored) for name in options.names)
            for session_id in chosen:
                await store.delete(session_id)
            return [stored[session_id] for session_id in chosen]

        return _print_total([session.size for session in with_store(where, delete)], dry=False)
    store = SessionStore(directory)
    paths = dict.fromkeys(store.find(name) for name in options.names)
    freed = [store.delete(path) for path in paths]
    _drop_marks(directory, paths)
    return _print_total(freed, dry=False)


def _drop_marks(directory: Path, paths: Iterable[Path]) -> None:
    """Drop the digests of messages by which a proxy finds these sessions; it makes them again if needed."""
    ids = [id_of(path) for path in paths]
    index = DiskIndex(directory)
    asyncio.run(index.drop([session_id for session_id in ids if is_session_id(session_id)]))
    index.close()


def _delete_turn(path: Path, number: int) -> None:
    from wane.cli.sessions.show import load_session

    with Journal.open(path) as journal:
        session = load_session(path)
        if number > len(session.turns):
            raise UsageError(f"there is no turn {number}: the session has {len(session.turns):,}")
        starts = [session.rebuilt.transcript.message_of(turn.item) for turn in session.turns]
        ends = [*starts[1:], len(session.rebuilt.messages)]
        messages = range(starts[number - 1], ends[number - 1])
        records = without_messages(session.file.records, messages, datetime.now(UTC))
        try:
            rebuild(records, get_format(journal.header.format))
        except (WaneError, ValueError) as error:
            raise JournalError(
                f"nothing was deleted: without turn {number} the session would not replay: {error}. Delete all of it"
            ) from error
        rewrite(journal, records)
    hidden = sum(isinstance(record, RequestRecord) and record.deleted is not None for record in records)
    sys.stdout.write(
        f"the texts of turn {number} were deleted, {count_noun(len(messages), 'message')}; "
        f"{count_noun(hidden, 'request')} can no longer be shown as sent\n"
    )


def _print_session(session_id: str, written: datetime, size: int) -> None:
    sys.stdout.write(f"{short_id(session_id):<16}  {local_time(written)}  {human_bytes(size):>8}\n")


def _print_total(freed: Sequence[int], *, dry: bool) -> int:
    """Print the number of sessions and the bytes that they freed, and return the exit code."""
    result = "would be deleted, which would free" if dry else "deleted, which freed"
    sys.stdout.write(f"{count_noun(len(freed), 'session')} {result} {human_bytes(sum(freed))}\n")
    return failure.OK
