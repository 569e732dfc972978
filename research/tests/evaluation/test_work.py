"""What an agent did in a session, call by call."""

from __future__ import annotations

from pathlib import Path

from tests.cli.sample import Chat
from wane.journal import Journal, MessageRecord
from wane.lab.readers import read_file
from wane.lab.session import RecordedSession
from wane_research.evaluation.running.journals import explored_first, figures_of, tool_uses, unended_episodes


def saved(folder: Path, chat: Chat) -> Path:
    with Journal.create(folder, cwd=folder, message_format="openai", session_id="5a3e", fsync=False) as journal:
        for message in chat.messages:
            journal.append(MessageRecord(message=message))
    return journal.path


def session_of(folder: Path, chat: Chat) -> RecordedSession:
    (session,) = read_file(saved(folder, chat))
    return session


def worked() -> Chat:
    chat = Chat()
    chat.user("Put it right.")
    chat.call("delimiter", {"action": "start", "name": "look", "type": "expl"}, "Started.")
    chat.call("read_file", {"path": "a.py", "offset": 1}, "a")
    chat.call("read_file", {"offset": 1, "path": "a.py"}, "a")
    chat.call("shell", {"command": "python -m unittest"}, "OK")
    chat.call("edit_file", {"path": "a.py", "old_text": "a", "new_text": "b"}, "Edited.")
    chat.call("read_file", {"path": "a.py", "offset": 1}, "b")
    return chat


def test_a_read_is_a_repeat_as_long_as_nothing_has_changed(tmp_path: Path) -> None:
    uses = list(tool_uses(session_of(tmp_path, worked())))
    assert [(use.explores, use.changes, use.repeats) for use in uses] == [
        (True, False, False),
        (True, False, True),
        (False, False, False),
        (False, True, False),
        (True, False, False),
    ]
    assert explored_first(uses) == 2
    assert explored_first(uses[4:]) == 1, "nothing was changed, so all of it counts"


def test_an_episode_is_without_end_until_it_is_ended(tmp_path: Path) -> None:
    chat = worked()
    assert unended_episodes(session_of(tmp_path / "open", chat)) == {"look"}
    chat.call("delimiter", {"action": "start", "name": "write", "type": "expl"}, "Error: look is active.")
    chat.call("delimiter", {"action": "end", "name": "look", "description": "a is b"}, "Ended.")
    assert unended_episodes(session_of(tmp_path / "ended", chat)) == set()


def test_in_a_session_over_tasks_each_counts_what_it_did_itself(tmp_path: Path) -> None:
    """An episode that was left open before is not counted again."""
    chat = worked()
    before = figures_of(saved(tmp_path / "before", chat))
    chat.user("The next task.")
    chat.call("read_file", {"path": "a.py", "offset": 1}, "another a, in a new environment")
    chat.call("read_file", {"path": "b.py"}, "b")
    chat.call("read_file", {"path": "b.py"}, "b")
    chat.call("write_file", {"path": "c.py", "content": "c"}, "Wrote c.py.")
    after = figures_of(saved(tmp_path / "after", chat))
    _, first = before.since(type(before)(), None)
    _, second = after.since(before, None)
    assert first is not None
    assert second is not None
    assert (first.explored_first, first.repeated, first.unended) == (2, 1, 1)
    assert (second.explored_first, second.repeated, second.unended) == (3, 1, 0)
