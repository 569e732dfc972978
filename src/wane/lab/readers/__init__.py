"""Readers of recorded sessions: one module for each format.

sessions = read_session("run.jsonl")        # the format is recognised
whole = join(read_session("tasks/"), "all tasks")
"""

from wane.lab.names import READER_NAMES
from wane.lab.readers.building.content import figures_alone
from wane.lab.readers.building.joining import join
from wane.lab.readers.building.json_lines import head
from wane.lab.readers.gathering import Gathered, Recording, Unread, gather, read_session
from wane.lab.readers.named_files import STDIN, find_files, plain_file, shown_path
from wane.lab.readers.reading import is_foreign, read_file, read_plain

__all__ = [
    "READER_NAMES",
    "STDIN",
    "Gathered",
    "Recording",
    "Unread",
    "figures_alone",
    "find_files",
    "gather",
    "head",
    "is_foreign",
    "join",
    "plain_file",
    "read_file",
    "read_plain",
    "read_session",
    "shown_path",
]
