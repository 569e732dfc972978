"""The SQL statements. Each is one step, and safe to repeat."""

from __future__ import annotations

from typing import Final, LiteralString

VERSION: Final = 1
"""Version of the tables."""

HAS_TABLES: Final = "SELECT to_regclass('wane_schema') IS NOT NULL"
SCHEMA_VERSION: Final = "SELECT version FROM wane_schema"

# An arbitrary number that only Wane uses, so that it waits for no other program.
LOCK_TABLES: Final = "SELECT pg_advisory_xact_lock(8428427262005)"

MAKE_TABLES: Final[tuple[LiteralString, ...]] = (
    """
    CREATE TABLE IF NOT EXISTS wane_session (
        id text PRIMARY KEY,
        root text NOT NULL,
        lines integer NOT NULL,
        tail text NOT NULL,
        written timestamptz NOT NULL
    )
    """,
    "CREATE INDEX IF NOT EXISTS wane_session_root ON wane_session (root, written DESC)",
    "CREATE INDEX IF NOT EXISTS wane_session_written ON wane_session (written)",
    """
    CREATE TABLE IF NOT EXISTS wane_line (
        session text NOT NULL REFERENCES wane_session (id) ON DELETE CASCADE,
        number integer NOT NULL,
        line text NOT NULL,
        PRIMARY KEY (session, number)
    )
    """,
    # Created last: if it exists, so do the others.
    "CREATE TABLE IF NOT EXISTS wane_schema (version integer PRIMARY KEY)",
)
SET_VERSION: Final = """
INSERT INTO wane_schema (version) SELECT %(version)s WHERE NOT EXISTS (SELECT FROM wane_schema)
"""

FIND: Final = "SELECT id FROM wane_session WHERE root = %(root)s ORDER BY written DESC, id LIMIT %(limit)s"

BEGIN: Final = """
WITH begun AS (
    INSERT INTO wane_session (id, root, lines, tail, written)
    VALUES (%(id)s, %(root)s, 1, %(tail)s, clock_timestamp())
    ON CONFLICT DO NOTHING
    RETURNING id
)
INSERT INTO wane_line (session, number, line) SELECT id, 1, %(line)s FROM begun RETURNING number
"""

LINES: Final = """
SELECT line FROM wane_line WHERE session = %(id)s ORDER BY number LIMIT %(limit)s
"""

NEWS: Final = """
SELECT lines, tail, ARRAY(SELECT line FROM wane_line WHERE session = %(id)s AND number > %(known)s ORDER BY number)
FROM wane_session WHERE id = %(id)s
"""

APPEND: Final = """
WITH grown AS (
    UPDATE wane_session
    SET lines = lines + %(count)s, tail = %(tail)s, written = clock_timestamp()
    WHERE id = %(id)s AND lines = %(known)s AND tail = %(before)s
    RETURNING id
)
INSERT INTO wane_line (session, number, line)
SELECT grown.id, %(known)s + fresh.number, fresh.line
FROM grown, unnest(%(lines)s::text[]) WITH ORDINALITY AS fresh (line, number)
RETURNING number
"""

APPENDED: Final = """
SELECT 1 FROM wane_session WHERE id = %(id)s AND lines = %(known)s + %(count)s AND tail = %(tail)s
"""

WAIT_FOR_DISK: Final = "SET LOCAL synchronous_commit = on"
TOUCH: Final = "UPDATE wane_session SET lines = lines WHERE id = %(id)s"

PURGE: Final = """
DELETE FROM wane_session
WHERE id IN (
    SELECT id FROM wane_session
    WHERE written < clock_timestamp() - make_interval(secs => %(expiry)s)
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
RETURNING id
"""

UNWRITTEN: Final = """
SELECT id, written, (SELECT sum(octet_length(line)) FROM wane_line WHERE session = id)::bigint FROM wane_session
WHERE written < clock_timestamp() - make_interval(secs => %(seconds)s) ORDER BY written
"""

DELETE: Final = "DELETE FROM wane_session WHERE id = %(id)s RETURNING id"
