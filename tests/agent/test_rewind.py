"""Going back in a session, and forward again, with conversation, view and files."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.agent.provider import Serve
from tests.agent.test_chat import ESC, Terminal, converse, words
from tests.agent.work import end, shell, start
from wane.account import Account
from wane.agent.session import AgentSession
from wane.formats.pydantic_ai import PydanticAIFormat
from wane.testing import Call, Kind, Reply


def edit(old: str, new: str) -> Call:
    return Call("edit_file", {"path": "app.py", "old_text": old, "new_text": new})


def state(session: AgentSession) -> tuple[object, ...]:
    """The conversation and the view of a session."""
    window, format_ = session.window, PydanticAIFormat()
    messages = [format_.parts(message) for message in session.conversation.messages]
    return messages, window.visible, window.tokens, [episode.name for episode in window.episodes]


REPLIES = [
    Reply("Looking.", calls=(start("look", "expl"), Call("grep", {"pattern": "41"}))),
    Reply(calls=(end("app.py:2 returns 41"),)),
    Reply("One."),
    Reply(calls=(start("fix", "act", "look"), edit("41", "42"))),
    Reply(calls=(Call("write_file", {"path": "new.py", "content": "a\n"}), edit("42", "43"))),
    Reply("Two."),
    shell("touch made"),
    Reply("Three."),
    Reply("Another two."),
    Reply("Four."),
]


def test_back_to_any_turn_with_files_and_forward_again(serve_model: Serve, repository: Path) -> None:
    app, new = repository / "app.py", repository / "new.py"
    before, accounts = app.read_text(), list[Account]()

    async def scene(at: Terminal) -> None:
        await at.answers("/rewind", "Nothing has been said yet")
        await at.answers("first", "One.", "model calls")
        after_one = state(at.chat.session)
        await at.answers("second", "Two.", "model calls")
        await at.answers("third", "Three.", "model calls")
        after_three, session, spent = state(at.chat.session), at.chat.session.id, at.chat.session.account
        assert "43" in app.read_text()

        for text in ("0", "4", "x", "2 file"):
            await at.answers(f"/rewind {text}", "is not understood; give a turn's number, 1 to 3, alone or with files")
        at.type(ESC)
        await asyncio.sleep(0.3)
        at.type(ESC)
        await at.until("1  first", "2  second", "3  third")
        assert at.asks("Go back to before which turn?")
        shown = await at.answers("2", "Files stay as they are: app.py, new.py.", "since then")
        assert "1 call of a command or another tool since then" in shown
        assert f"You are back to before turn 2, in session {at.chat.session.id}." in shown
        assert "> first" in shown
        assert "> second" not in shown
        assert state(at.chat.session) == after_one
        assert at.chat.session.account == spent
        assert "43" in app.read_text()
        await at.when(lambda: at.chat._prompt.default_buffer.text == "second", "the words to be changed")
        at.type("\x03")

        await at.answers("/forward", f"You are forward again, in session {session}.", "> third")
        assert state(at.chat.session) == after_three
        assert at.chat.session.account == spent
        await at.answers("/forward", "there is nothing ahead")

        await at.answers("/rewind 2 files", "put back: app.py", "put back: new.py")
        assert app.read_text() == before
        assert not new.exists()
        assert (repository / "made").exists()
        await at.when(lambda: at.chat._prompt.default_buffer.text == "second")
        await at.answers(" anew", "Another two.", "1 model call")
        await at.answers("/forward files", "put back: app.py", "put back: new.py", "> third")
        assert "43" in app.read_text()
        assert new.read_text() == "a\n"
        assert state(at.chat.session) == after_three

        app.write_text("mine\n")
        await at.answers("/rewind 2 files", "put back: new.py", "left as it is: app.py: it was changed since")
        assert app.read_text() == "mine\n"
        at.type("\x03")
        accounts.append(at.chat.session.account)

    async def later(at: Terminal) -> None:
        """Back and forward outlast the chat, and so does what was spent."""
        await at.until("> first")
        assert at.chat.session.account == accounts[0]
        calls = f"{accounts[0].calls} model calls in this session and in those that you went back or forward from"
        await at.answers("/cost", calls)
        await at.answers("/forward files", "put back: new.py", "> third")
        assert new.read_text() == "a\n"
        assert at.chat.session.account == accounts[0]
        await at.answers("fourth", "Four.")

    requests = converse(serve_model, repository, REPLIES, scene, later, yolo=True)
    assert words(requests[-2]) == ["first", "second anew"]
    assert words(requests[-1]) == ["first", "second", "third", "fourth"]
    assert requests[-2].parts[: len(requests[3].parts)][:-1] == requests[3].parts[:-1]


def test_no_file_is_put_back_over_a_link_or_without_knowing_what_it_held(serve_model: Serve, repository: Path) -> None:
    (repository / "data").write_bytes(b"\xff\xfe old")
    replies = [
        Reply(calls=(Call("write_file", {"path": "data", "content": "new"}), edit("41", "42"))),
        Reply("Done."),
    ]

    async def scene(at: Terminal) -> None:
        await at.answers("go", "Done.", "model calls")
        (repository / "elsewhere.py").write_text((repository / "app.py").read_text())
        (repository / "app.py").unlink()
        (repository / "app.py").symlink_to("elsewhere.py")
        await at.answers("/rewind 1 files", "app.py: it is a link", "data: what it held was not kept")
        assert "42" in (repository / "elsewhere.py").read_text()
        assert (repository / "data").read_text() == "new"
        await at.when(lambda: at.chat._prompt.default_buffer.text == "go")
        at.type("\x03")

    converse(serve_model, repository, replies, scene, yolo=True)


def test_what_a_person_keeps_and_lets_go_outlasts_the_chat(serve_model: Serve, repository: Path) -> None:
    replies = [
        Reply(calls=(start("a", "expl"), Call("grep", {"pattern": "41"}))),
        Reply(calls=(end("it is in app.py"), start("b", "expl"), Call("grep", {"pattern": "def"}))),
        Reply(calls=(end("there is one"),)),
        Reply("One."),
        Reply("Two."),
        Reply("Three."),
    ]

    async def scene(at: Terminal) -> None:
        await at.answers("go", "One.", "model calls")
        await at.answers("/keep", "which episode?")
        await at.answers("/keep nothing", "no episode 'nothing' is in view")
        await at.answers("/keep b", "b stays in view until you release or drop it")
        await at.answers("/drop a", "a leaves the view with the next request")
        await at.answers("/context", "let go by you", "kept by you")
        await at.answers("more", "evicted", "Two.")
        assert "a" not in state(at.chat.session)[-1]

    async def later(at: Terminal) -> None:
        await at.until("> more")
        await at.answers("/context", "kept by you")
        await at.answers("/rewind 2", "You are back to before turn 2")
        at.type("\x03")
        await at.answers("/context", "let go by you", "kept by you")
        await at.answers("/release a", "a is evicted like any other again.")
        await at.answers("anew", "Three.")
        assert "a" in state(at.chat.session)[-1]

    converse(serve_model, repository, replies, scene, later, yolo=True)


def test_a_session_that_is_not_saved_has_no_way_back(serve_model: Serve, repository: Path) -> None:
    async def scene(at: Terminal) -> None:
        await at.answers("go", "Done.", "1 model call")
        await at.answers("/rewind 1", "there is no way back in a session that is not saved")
        assert at.chat.session.turns

    requests = converse(serve_model, repository, [Reply("Done.")], scene, save=False)
    assert requests[0].texts(Kind.USER)
