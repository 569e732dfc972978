"""The chat with keys from a pipe, and once in a real terminal."""

from __future__ import annotations

import asyncio
import io
import os
import re
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput
from pydantic_ai.models import Model
from rich.console import Console

from tests.agent.provider import Serve
from tests.agent.work import end, shell, start
from wane.agent.models import ModelError
from wane.agent.options import AgentOptions
from wane.cli.chat.interactive import Chat, run_chat
from wane.cli.chat.narration import footer, short
from wane.cli.failure import UsageError
from wane.testing import Call, HttpError, Kind, Reply, Request, Script, Usage

GREETING = "commands.\n"  # how it ends, wherever its lines are broken
CTRL_C, CTRL_D, ENTER, ESC = "\x03", "\x04", "\r", "\x1b"


class Terminal:
    """A chat in which a test types and reads."""

    def __init__(self, chat: Chat, keys: PipeInput, screen: io.StringIO) -> None:
        self.chat = chat
        self._keys = keys
        self._screen = screen
        self._read = 0

    def type(self, text: str) -> None:
        self._keys.send_text(text)

    def say(self, line: str) -> None:
        self.type(f"{line}{ENTER}")

    async def when(self, met: Callable[[], bool], what: str = "it") -> None:
        """Wait until something is so."""
        for _ in range(12_000):
            if met():
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"{what} did not come; there was:\n{self._new}")

    @property
    def _new(self) -> str:
        return self._screen.getvalue()[self._read :]

    async def until(self, *words: str) -> str:
        """Wait until the words have been written, since the last time; return all that has."""
        await self.when(lambda: all(word in self._new for word in words), str(words))
        new = self._new
        self._read += len(new)
        return new

    async def answers(self, line: str, *words: str) -> str:
        """Say a line, and wait until the words have been written."""
        self.say(line)
        return await self.until(*words)

    def asks(self, words: str) -> bool:
        """Whether the prompt asks something in these words."""
        return words in "".join(text for _, text in self.chat._message())

    async def shows(self, words: str) -> None:
        """Wait until the lines above the prompt hold these words."""
        await self.when(lambda: self.asks(words), words)

    async def wait_for_question(self, words: str) -> str:
        """Wait until the open question holds these words; return what was written before, and the question."""
        await self.shows(words)
        await self.when(lambda: self.chat._question.open)
        return await self.until() + "".join(text for _, text in self.chat._message())


@contextmanager
def terminal(model: Model, project: Path, **options: object) -> Iterator[Terminal]:
    screen = io.StringIO()
    console = Console(file=screen, width=100, highlight=False, markup=False, emoji=False)
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        given = AgentOptions(cwd=project, model=model, **options)  # type: ignore[arg-type]
        yield Terminal(Chat(given, console), keys, screen)


Scene: TypeAlias = Callable[[Terminal], Coroutine[Any, Any, None]]
"""What a test types in a chat, and reads there."""


def play(at: Terminal, scene: Scene) -> int:
    """Run a chat and a scene side by side, to the end of both; after the scene the chat is quit."""

    async def both() -> int:
        chat = asyncio.create_task(at.chat.run())
        await scene(at)
        at.type(CTRL_D)
        return await asyncio.wait_for(chat, 120)

    return asyncio.run(both())


def converse(
    serve_model: Serve, project: Path, script: Script, scene: Scene, *later: Scene, **options: object
) -> Sequence[Request]:
    """Play a scene in a chat of its own, and later ones in chats that continue it; return what the model was asked."""
    with serve_model(script) as server:
        for number, played in enumerate((scene, *later)):
            with terminal(server.model(), project, continue_last=number > 0, **options) as at:
                assert play(at, played) == 0
    return server.requests


def words(request: Request) -> list[str]:
    """The user's own words in a request."""
    return [text for text in request.texts(Kind.USER) if "<" not in text]


def test_a_turn_with_approvals_and_the_commands(serve_model: Serve, repository: Path) -> None:
    replies = [
        Reply("I look.\n", calls=(start("look", "expl"), Call("grep", {"pattern": "41"}))),
        Reply(calls=(end("app.py:2 returns 41"),)),
        Reply(
            calls=(
                start("fix", "act", "look"),
                Call("edit_file", {"path": "app.py", "old_text": "41", "new_text": "42"}),
                Call("shell", {"command": "touch tested"}),
            )
        ),
        Reply(calls=(end(),)),
        Reply("It is \x1b[31m42 now.\nDone."),
    ]

    async def scene(at: Terminal) -> None:
        await at.until("/help")
        at.say("fix it")
        shown = await at.wait_for_question("+    return 42")
        assert "I look." in shown
        assert "▶ reading look" in shown
        assert "app.py:2:" in shown
        assert "■ look: app.py:2 returns 41" in shown
        at.say("y")
        assert "  └ allowed once: changes of app.py\n" in await at.wait_for_question("touch tested")
        shown = await at.answers("use make test", "Done.", "5 model calls")
        assert "  └ refused: touch tested (use make test)\n" in shown
        assert r"It is \x1b[31m42 now." in shown
        assert "use make test" in shown
        shown = await at.answers("/context", "A pass runs when the view is full")
        assert re.search(r"R +look +\d+ +\d+ +complete +needed by fix", shown)
        assert "What the next pass would evict" in shown
        in_context = re.findall(r"(look|fix) +([\d,]+)", shown.partition("What the next pass")[0])
        shown = await at.answers("/episodes", "whole", "look", "fix")
        assert re.findall(r"(look|fix) +([\d,]+)", shown) == in_context, "one figure for one episode"
        await at.answers("/recall look", "app.py:2:    return 41")
        await at.answers("/recall nothing", "no episode is named 'nothing'")
        await at.answers("/search return 4[01]", "was found in", 'in episode "look"')
        await at.answers("/search", "/search needs a text")
        await at.answers("/budget 1k", "of 1,000 tokens", "Budget 1,000; ", "always stay")
        shown = " ".join((await at.answers("/context", "A pass runs when the view is full", "user turns ")).split())
        told = re.search(
            r"The view holds [\d,]+ of ([\d,]+) tokens\..* Budget 1,000; ([\d,]+) tokens always stay "
            r"\(system prompt and tools ([\d,]+), user turns (\d+)\); working with ([\d,]+)\.",
            shown,
        )
        assert told
        budget, fixed, system, users, used = (int(number.replace(",", "")) for number in told.groups())
        assert budget == used == fixed + 600
        assert fixed == system + users
        assert users > 2 + len("use make test") // 4  # a person's answer counts as their turns do (R21)
        await at.answers("/budget 9k", "of 9,000 tokens")
        await at.answers("/budget lots", "budget 'lots' is not understood")
        await at.answers("/wane off", "not managed")
        assert "are evicted" not in await at.answers("/compact", "nothing is evicted", "/wane on manages it")
        await at.answers("/wane on", "is managed")
        await at.answers("/model", "The model is openai:gpt-4.1", "openai:gpt-6.1-sol", "$ per 1M in")
        await at.answers("/model openai:gpt-6.1-soll", "is known; did you mean openai:gpt-6.1-sol")
        await at.answers("/model groq:llama-3.3-70b-versatile", "needs a client that is not installed. Install it with")
        await at.answers("/model openai:xyz", "no model 'openai:xyz' is known; /model lists some.")
        assert at.chat.session.model.model_id == "openai:gpt-4.1"
        await at.answers("/fxi", "there is no command /fxi; /help lists all")
        await at.answers("/pin look", "there is no command /pin; did you mean /keep? /help lists all")
        await at.answers("/drop", "which episode? Write /drop and its name, or unmarked 3; /context lists them")
        await at.answers("/nonsense", "there is no command /nonsense; /help lists all")
        await at.answers("/permisions", "there is no command /permisions; did you mean /permissions? /help lists all")
        await at.answers("/new and fix it", "/new takes nothing after it, but there is 'and fix it'")
        await at.answers("/co", "/co could be /context, /compact or /cost")
        await at.answers("/cost", "$0.", " for 5 model calls in this session", "Output: ")
        await at.answers("/compact", "There is nothing to compact", "/budget 4.5k", "/new")
        await at.answers("/help", "/context", "/new, /clear", "/quit, /exit", "Esc ", "Stop the turn; twice")
        await at.answers("/exit", "wane --resume")

    requests = converse(serve_model, repository, replies, scene)
    refused = list(requests[3].results.values())[-1]
    assert "use make test" in refused
    assert (repository / "app.py").read_text().endswith("42\n")


def test_clear_begins_an_empty_session_and_a_path_is_no_command(serve_model: Serve, repository: Path) -> None:
    async def scene(at: Terminal) -> None:
        assert "/resume" not in await at.answers("/clear", GREETING)
        await at.answers("first", "One.", "1 model call")
        before = at.chat.session.id
        await at.answers("/clear", f"To go back: /resume {before}")
        assert at.chat.session.history == []
        await at.answers("/etc/hosts is a file", "Two.", "1 model call")
        await at.answers("exit", "wane --resume")

    requests = converse(serve_model, repository, [Reply("One."), Reply("Two.")], scene)
    assert words(requests[1]) == ["/etc/hosts is a file"]


@pytest.mark.full
def test_a_search_goes_on_page_by_page(serve_model: Serve, repository: Path) -> None:
    async def scene(at: Terminal) -> None:
        await at.until("/help")
        await at.answers("/search", "/search needs a text")
        await at.answers("go", "Done.", "2 model calls")
        shown = await at.answers("/search needle \\d", "2 more; /search shows them")
        assert "was found in 10 places" in shown
        assert "8. Message" in shown
        assert "9. Message" not in shown
        shown = await at.answers("/search", "10. Message", "needle 0")
        assert "8. Message" not in shown
        assert "more" not in shown
        await at.answers("/search", "/search needs a text")
        await at.answers("/search needle", "2 more; /search shows them")
        await at.answers("/new", "/help")
        await at.answers("/search", "/search needs a text")

    echoes = shell(*(f"echo needle {number}" for number in range(5)))
    converse(serve_model, repository, [echoes, Reply("Done.")], scene, yolo=True)


@pytest.mark.full
def test_what_always_covers_is_told_and_holds_in_later_sessions_where_wanted(
    serve_model: Serve, repository: Path
) -> None:
    async def scene(at: Terminal) -> None:
        at.say("go")
        shown = await at.wait_for_question("6  ask about each part")
        assert "  touch x && mkdir 3\nIts parts:\n  asks     touch x  (always: touch with any arguments)\n" in shown
        assert "1  yes, this whole line, once\n" in shown
        assert "2  always, as shown above, until the session ends" in shown
        assert at.asks("Allow it? 1, 2, 3, 4, 5 or 6, or")
        await at.answers("v", "Answer with one of the digits below, or in your own words.")
        at.say("e")
        shown = await at.wait_for_question("7  never: touch with any arguments, in this project for good")
        assert "Part 1 of the 2 that need approval:\n  touch x\n" in shown
        assert at.asks("Allow it? 1, 2, 3, 4, 5 or 7, or")
        at.say("p")
        await at.wait_for_question("Part 2 of the 2 that need approval:\n  mkdir 3\n")
        at.say("a")
        shown = await at.wait_for_question("  asks     xargs rm\n")
        assert "  allowed  mkdir 3  (mkdir *)\n" in shown
        assert "always" not in shown.partition("xargs rm")[2]
        assert at.asks("Allow it? 1, 4 or 5, or")
        await at.answers("a", "Answer with one of the digits below, or in your own words.")
        await at.answers("n", "One.")
        shown = await at.answers(
            "/permissions", "for good", "The agent asks before other commands, file changes, calls of MCP tools."
        )
        assert re.search(r"1 +allow +touch \* +this project, for good", shown)
        assert re.search(r"allow +mkdir \* +an answer, until the session ends", shown)

    async def later(at: Terminal) -> None:
        at.say("go")
        shown = await at.wait_for_question("  asks     mkdir 3\n")
        assert "  allowed  touch y  (touch *)\n" in shown
        assert "2  always: mkdir with any arguments, until the session ends" in shown
        await at.answers("v", "Two.")
        shown = await at.answers("/permissions forget 2", "1  deny  mkdir *")
        assert "touch" not in shown
        for number in ("7", "\u0661"):  # one that there is not, and a digit of another script
            await at.answers(f"/permissions forget {number}", f"forget {number} is not understood")

    first = [shell("touch x && mkdir 3"), shell("mkdir 3 | xargs rm"), Reply("One.")]
    converse(serve_model, repository, [*first, shell("touch y && mkdir 3"), Reply("Two.")], scene, later)
    assert (repository / "x").exists()
    assert not (repository / "y").exists()


def test_a_mark_that_is_refused_stands_in_the_log(serve_model: Serve, repository: Path) -> None:
    replies = [
        Reply(calls=(end(), start("a\x1b[1m", "expl"))),
        Reply(calls=(start("b", "expl"),)),
        Reply("Done."),
    ]

    async def scene(at: Terminal) -> None:
        await at.answers("/log", "Nothing has happened behind the scenes yet.")
        shown = await at.answers("go", "Done.", "3 model calls")
        assert "refused" not in shown
        assert r"▶ reading a\x1b[1m" in shown
        shown = await at.answers("/log", "one at a time")
        assert [line.rstrip() for line in shown.splitlines() if "refused:" in line] == [
            "mark refused: no episode is active, so there is nothing to end",
            r'mark refused: episode "a\u001b[1m" is still active, and there is one at a time',
        ]

    converse(serve_model, repository, replies, scene)


def test_the_agents_to_do_list_is_shown(serve_model: Serve, repository: Path) -> None:
    todos = [{"content": "look", "status": "completed"}, {"content": "fix", "status": "in_progress"}]
    todos += [{"content": "test\x1b[1m", "status": "pending"}, {"content": "ask", "status": "cancelled"}]

    async def scene(at: Terminal) -> None:
        shown = await at.answers("go", "Done.", "2 model calls")
        assert "● to do\n  ☑ look\n  ▶ fix\n  ☐ test\\x1b[1m\n    ask\n" in shown

    converse(serve_model, repository, [Reply(calls=(Call("todo_write", {"todos": todos}),)), Reply("Done.")], scene)


def test_ctrl_c_stops_the_turn_and_not_the_chat(serve_model: Serve, repository: Path) -> None:
    replies = [shell("touch begun; sleep 60"), Reply("Again.")]

    async def scene(at: Terminal) -> None:
        at.say("wait")
        await at.when((repository / "begun").exists)
        at.say("later")
        await at.shows("next: later")
        await at.answers("/episodes", "not finished")
        at.type(CTRL_C)
        await at.until("Stopped. What was done")
        at.type("half a word")
        at.type(CTRL_C)
        at.type(CTRL_C)
        await at.until("Press Ctrl-C again to quit")
        await at.answers("go on", "Again.")
        at.type(CTRL_D)
        await at.until("wane --resume")

    requests = converse(serve_model, repository, replies, scene, yolo=True)
    assert words(requests[1]) == ["wait", "go on"]


@pytest.mark.parametrize("key", [CTRL_C, ESC], ids=["Ctrl-C", "Esc"])
def test_a_key_that_stops_refuses_what_is_asked(serve_model: Serve, repository: Path, key: str) -> None:
    async def scene(at: Terminal) -> None:
        at.say("do it")
        await at.wait_for_question("touch made")
        at.type(key)
        await at.until("Stopped")

    requests = converse(serve_model, repository, [shell("touch made")], scene)
    assert len(requests) == 1
    assert not (repository / "made").exists()


def test_one_digit_answers_a_question_that_somebody_can_have_read(serve_model: Serve, repository: Path) -> None:
    async def scene(at: Terminal) -> None:
        at.say("work")
        await at.wait_for_question("touch one")
        at.type("1")  # at once: meant for something else
        await asyncio.sleep(0.4)
        assert at.chat.asking
        at.type("\x7f")
        await at.when(lambda: not at.chat._prompt.default_buffer.text)
        at.type("1")
        assert "touch one" in await at.wait_for_question("touch two")
        await asyncio.sleep(0.4)
        at.type("stop 1")  # within words a digit is a digit, and no letter answers
        await asyncio.sleep(0.1)
        assert at.chat.asking
        at.type(ENTER)
        assert "refused: touch two (stop 1)" in await at.until("Done.")

    converse(serve_model, repository, [shell("touch one"), shell("touch two"), Reply("Done.")], scene)
    assert (repository / "one").exists()
    assert not (repository / "two").exists()


def test_a_long_question_leaves_room_for_its_answers(serve_model: Serve, repository: Path) -> None:
    command = "\n".join(f"touch file-{number}" for number in range(60))

    async def scene(at: Terminal) -> None:
        at.say("work")
        shown = await at.wait_for_question("more lines; Ctrl-O shows all")
        question = "".join(text for _, text in at.chat._message())
        assert question.count("\n") < 40  # rows of the terminal
        assert "file-59" not in shown
        at.type("\x0f")  # Ctrl-O
        await at.until("touch file-59")
        at.say("no")
        await at.until("Done.")

    converse(serve_model, repository, [shell(command), Reply("Done.")], scene)


@pytest.mark.full
def test_what_was_being_typed_is_not_the_answer(serve_model: Serve, repository: Path) -> None:
    async def scene(at: Terminal) -> None:
        at.say("do it")
        at.type("and then ")
        await at.wait_for_question("touch made")
        at.say("a")
        await at.answers("more", "First.", "Second.")

    replies = [replace(shell("touch made"), delay=0.3), Reply("First."), Reply("Second.")]
    requests = converse(serve_model, repository, replies, scene)
    assert "and then more" in requests[-1].texts(Kind.USER)
    assert (repository / "made").exists()


def test_sessions_are_listed_and_changed(serve_model: Serve, repository: Path) -> None:
    async def scene(at: Terminal) -> None:
        await at.answers("first", "One.", "1 model call")
        first = at.chat.session.id
        await at.answers("/new", "/help")
        await at.answers("second", "Two.", "1 model call")
        second = at.chat.session.id
        assert second != first
        assert "*1" in await at.answers("/sessions", "first", "second")
        shown = await at.answers("/resume 2", "/help lists", "One.")
        counts, _, words_shown, answer = shown.splitlines()[-4:]
        assert (words_shown, answer) == ("> first", "One.")
        assert "1 turn  0 passes" in counts
        assert at.chat.session.id == first
        await at.answers(f"/resume {first}", "you are in this session already")
        await at.answers("/resume", "*2", "second")
        assert at.asks("Resume which one?")
        await at.answers("zz", "no session has an id that begins with 'zz'")
        assert at.asks("Resume which one?")
        # What was typed is there to be changed.
        at.type("\x7f\x7f1\r")
        await at.until("/help lists", "Two.")
        assert at.chat.session.id == second
        for leave in (ENTER, CTRL_C, f"/help{ENTER}"):
            await at.answers("/resume", "*")
            at.type(leave)
            await at.when(lambda: not at.asks("Resume which one?"))
        assert at.chat.session.id == second
        await at.answers("/resume", "*")
        await at.answers(str(first), "/help lists", "One.")
        await at.answers("2", "Three.")

    requests = converse(serve_model, repository, [Reply("One."), Reply("Two."), Reply("Three.")], scene)
    assert words(requests[2]) == ["first", "2"]


def test_going_on_shows_what_the_session_was_about(serve_model: Serve, repository: Path) -> None:
    long = "Explain \x1b[1m the   parser\n" + "and all that hangs on it " * 20
    script = [Reply("It splits.\nThen it joins."), Reply("Now it is fixed."), Reply(error=HttpError(400, body="no"))]

    async def talk(at: Terminal) -> None:
        shown = await at.until("/help")
        assert shown.endswith(GREETING)
        at.type(f"\x1b[200~{long}\x1b[201~{ENTER}")
        await at.until("Then it joins.", "1 model call")
        await at.answers("fix it", "Now it is fixed.", "1 model call")

    async def fail(at: Terminal) -> None:
        shown = (await at.until("Now it is fixed.")).partition(GREETING)[2].splitlines()
        counts, _, first, *answer, _, second, last = shown
        assert first.startswith(r"> Explain \x1b[1m the parser and all that")
        assert len(first) == 100
        assert first.endswith("…")
        assert re.fullmatch(r"last used \d{4}-\d\d-\d\d \d\d:\d\d  2 turns  0 passes  view [\d.]+k/80k", counts)
        assert answer == ["It splits.", "Then it joins."]
        assert (second, last) == ("> fix it", "Now it is fixed.")
        await at.answers("and now?", "HTTP 400")

    async def look(at: Terminal) -> None:
        counts, *_, last, cut_off = (await at.until("cut off")).partition(GREETING)[2].splitlines()
        assert "  3 turns  " in counts
        assert (last, cut_off) == ("> and now?", "The last turn was cut off before an answer.")

    converse(serve_model, repository, script, talk, fail, look)


@pytest.mark.full
def test_a_provider_that_stays_away_is_told_of_in_few_words(serve_model: Serve, repository: Path) -> None:
    async def scene(at: Terminal) -> None:
        shown = await at.answers("go", "Given up after")
        assert "0 model calls" not in shown
        assert shown.count("slow down") == 1
        assert "trying again" not in shown, "that is the business of the line above the prompt"

    failures = [Reply(error=HttpError(429, body="slow down", headers={"retry-after": "0"}))] * 40
    converse(serve_model, repository, failures, scene, patience=0.03)


def test_quitting_in_the_middle_of_a_turn_leaves_a_session_to_resume(serve_model: Serve, repository: Path) -> None:
    async def scene(at: Terminal) -> None:
        await at.answers("wait", "● shell sleep 60")
        at.type(CTRL_D)
        await at.until("Stopped", "wane --resume")

    async def again(at: Terminal) -> None:
        unanswered = "> wait\n  shell sleep 60\n  no result: the session stopped before, so that it may not have run\n"
        await at.until("1 turn  0 passes", unanswered, "The last turn was cut off before an answer.")
        await at.answers("what happened?", "ok")

    requests = converse(serve_model, repository, [shell("sleep 60"), Reply("ok")], scene, again, yolo=True)
    assert "Interrupted" in next(iter(requests[1].results.values()))


def test_what_is_not_finished_stands_above_the_prompt(serve_model: Serve, repository: Path) -> None:
    command = "seq 20; while ! test -e go; do sleep 0.05; done; echo end"

    async def scene(at: Terminal) -> None:
        at.say("work")
        await at.shows("(14 lines above)\n    15\n")
        assert at.asks("shell seq 20; while")
        assert at.asks("Esc stops")
        at.say("later")
        await at.shows("next: later")
        at.type("\x1b[A")  # up
        await at.when(lambda: not at.asks("next: later"))
        at.say(" or now")
        await at.shows("next: later or now")
        (repository / "go").touch()
        shown = await at.until("Second.")
        assert "(15 lines above; Ctrl-O shows all)\n    16\n" in shown
        assert "> later or now\n" in shown
        assert not at.asks("Esc stops")
        at.type("\x0f")  # Ctrl-O
        await at.until("    1\n    2\n", "    end\n")

    replies = [shell(command), Reply("First."), Reply("Second.")]
    requests = converse(serve_model, repository, replies, scene, yolo=True)
    assert "later or now" in requests[-1].texts(Kind.USER)


@pytest.mark.full
def test_escape_stops_the_turn_and_leaves_nothing_above_the_prompt(serve_model: Serve, repository: Path) -> None:
    command = "seq 20; touch begun; exec sleep 60"

    async def scene(at: Terminal) -> None:
        at.say("work")
        await at.shows("(14 lines above)\n    15\n")
        await at.when((repository / "begun").exists)
        # Keys whose bytes begin with the same one: left, up, Alt-Enter, Alt-b.
        for keys in ("then", "\x1b[D", "\x1b[A", "\x1b\r", "\x1bb"):
            at.type(keys)
            await asyncio.sleep(0.3)
        assert at.chat.working
        at.type(ESC)
        shown = await at.until("Stopped.", "1 model call")
        assert "  └ (14 lines above)\n    15\n    16\n    17\n    18\n    19\n    20\nStopped." in shown
        assert not at.asks("lines above")
        at.type(CTRL_C)  # clears the line
        await at.answers("and now?", "Well.")
        assert not at.asks("20")
        at.type(ESC)  # nothing runs
        at.say("!touch again; exec sleep 60")
        await at.when((repository / "again").exists)
        at.type(ESC)
        await at.until("[exit code: 130]")

    replies = [shell(command), Reply("Well.")]
    converse(serve_model, repository, replies, scene, yolo=True)


def test_long_pastes_new_lines_and_an_empty_answer(serve_model: Serve, repository: Path) -> None:
    pasted = "\n".join(f"line {number}" for number in range(30))

    async def scene(at: Terminal) -> None:
        at.type(f"look at \x1b[200~{pasted}\x1b[201~")
        at.type("\x7f")  # removes it whole
        at.type(f"\x1b[200~{pasted}\x1b[201~ now")
        at.type("\n")  # Ctrl-J
        at.type(f"and\\{ENTER}here{ENTER}")
        shown = await at.wait_for_question("touch made")
        assert "\n> look at [Pasted #2: 30 lines] now\nand\nhere\n" in shown
        at.type(ENTER)
        await at.answers("y", "Done.")

    replies = [shell("touch made"), Reply("Done.")]
    requests = converse(serve_model, repository, replies, scene)
    assert f"look at {pasted} now\nand\nhere" in requests[0].texts(Kind.USER)
    assert (repository / "made").exists()


def test_a_command_at_a_question_is_no_answer(serve_model: Serve, repository: Path) -> None:
    async def scene(at: Terminal) -> None:
        at.say("work")
        await at.wait_for_question("touch made")
        await at.answers("/cost", "for 1 model call")
        await at.answers("/permissions", "The agent asks before")
        await at.answers("/permissions forget 1", "Answer the question first")
        await at.answers("/cots", "did you mean /cost?")
        await at.answers("/quit", "Answer the question first")
        await at.answers("y", "Done.")

    replies = [shell("touch made"), Reply("Done.")]
    converse(serve_model, repository, replies, scene)
    assert (repository / "made").exists()


def test_the_time_of_a_turn_leaves_out_what_the_user_takes_to_answer(serve_model: Serve, repository: Path) -> None:
    async def scene(at: Terminal) -> None:
        at.say("work")
        await at.wait_for_question("touch x")
        loop = asyncio.get_running_loop()
        asked, clock = loop.time(), loop.time
        loop.time = lambda: clock() + 3_600  # type: ignore[method-assign]
        at.say("y")
        await at.shows("shell touch x")
        assert at.chat._activity is not None
        assert at.chat._activity.began > asked + 3_000
        (repository / "go").touch()
        await at.until("Done.")

    replies = [
        shell("touch x; until test -e go; do sleep 0.05; done"),
        Reply("Done."),
    ]
    converse(serve_model, repository, replies, scene)


def test_edits_show_their_diff_once(serve_model: Serve, repository: Path) -> None:
    replies = [
        Reply(calls=(Call("edit_file", {"path": "app.py", "old_text": "41", "new_text": "42"}),)),
        Reply(calls=(Call("edit_file", {"path": "app.py", "old_text": "42", "new_text": "43"}),)),
        Reply(calls=(Call("edit_file", {"path": "app.py", "old_text": "nowhere", "new_text": "44"}),)),
        Reply(calls=(Call("write_file", {"path": "new.py", "content": "a\nb\n"}),)),
        Reply("Done."),
    ]

    async def scene(at: Terminal) -> None:
        at.say("go")
        assert "● edit_file app.py\n" in await at.wait_for_question("+    return 42")
        shown = await at.answers("s", "Done.")
        assert "● edit_file app.py\n  └ old_text not found in app.py" in shown
        assert "● write_file new.py\n" in shown
        assert shown.count("+    return 42\n") == shown.count("+    return 43\n") == 1
        assert "    -    return 42\n    +    return 43\n" in shown
        assert "    +a\n    +b\n" in shown

    converse(serve_model, repository, replies, scene)


def test_a_command_of_the_users_own_is_read_with_the_next_words(serve_model: Serve, repository: Path) -> None:
    async def scene(at: Terminal) -> None:
        await at.answers("!", "! needs a command to run")
        await at.answers("!echo one; exit 3", "one\n    [exit code: 3]")
        # `exec`, because dash may lose a Ctrl-C that comes while it starts another program.
        at.say("!touch begun; exec sleep 60")
        await at.when((repository / "begun").exists)
        at.type(CTRL_C)
        await at.until("[exit code: 130]")
        await at.answers("what was that?", "An error.")

    async def look(at: Terminal) -> None:
        counts, _, first, *_ = (await at.until("An error.")).partition(GREETING)[2].splitlines()
        assert first == "> what was that?"
        assert "  1 turn  " in counts, "what a command printed is no turn"

    (request,) = converse(serve_model, repository, [Reply("An error.")], scene, look)
    texts = request.texts(Kind.USER)
    assert "<local-command-stdout>\nThe user ran: echo one; exit 3\none\n[exit code: 3]" in texts[0]
    assert "what was that?" in texts[-1]


def test_the_users_own_commands(serve_model: Serve, repository: Path) -> None:
    (repository / ".wane" / "commands").mkdir(parents=True)
    (repository / ".wane" / "commands" / "fix.md").write_text("Fix $ARGUMENTS, and test it.")
    (repository / ".wane" / "commands" / "quit.md").write_text("The chat's own commands come first.")

    async def scene(at: Terminal) -> None:
        await at.answers("/help", "/fix", "Fix $ARGUMENTS, and test it.")
        await at.answers("/fix the login", "> /fix the login", "Done.")
        await at.answers("/quit", "wane --resume")

    requests = converse(serve_model, repository, [Reply("Done.")], scene)
    assert "Fix the login, and test it." in requests[0].texts(Kind.USER)


def test_ctrl_c_twice_at_an_empty_prompt_quits(serve_model: Serve, repository: Path) -> None:
    async def scene(at: Terminal) -> None:
        await at.answers("go", "One.")
        at.type(CTRL_C)
        await at.until("Press Ctrl-C again to quit")
        await at.answers("/budget", "of 80,000 tokens")
        at.type(CTRL_C)
        await at.until("Press Ctrl-C again to quit")
        at.type(CTRL_C)
        await at.until("wane --resume")

    converse(serve_model, repository, [Reply("One.")], scene)


def test_answers_to_questions_are_not_in_the_history(serve_model: Serve, repository: Path) -> None:
    async def scene(at: Terminal) -> None:
        at.say("first thing")
        await at.wait_for_question("touch a")
        await at.answers("y", "Done.")
        at.type("\x12thing")  # Ctrl-R
        at.type(f"{ENTER}{ENTER}")
        await at.until("Again.")
        at.type("\x1b[A")
        await at.answers("!", "And again.")

    replies = [
        shell("touch a"),
        Reply("Done."),
        Reply("Again."),
        Reply("And again."),
    ]
    requests = converse(serve_model, repository, replies, scene)
    assert words(requests[-1]) == ["first thing", "first thing", "first thing!"]


def test_the_footer(serve_model: Serve, repository: Path) -> None:
    usage = Usage(input=12_345, output=678, cache_read=10_000, cache_write=2_000)
    replies = [
        Reply(calls=(start("look", "expl"),), usage=usage),
        Reply("ok", usage=usage),
    ]

    async def scene(at: Terminal) -> None:
        await at.answers("go", "2 model calls")
        assert re.fullmatch(
            r"↑24\.7k ↓1\.4k R20k W4k \$0\.\d+  12\.3k/80k  reading look  openai:gpt-4\.1", footer(at.chat.session)
        )
        assert re.fullmatch(r"↑24\.7k ↓1\.4k R20k W4k \$0\.\d+  12\.3k/80k  reading look", footer(at.chat.session, 60))
        assert re.fullmatch(r"\$0\.\d+  12\.3k/80k", footer(at.chat.session, 20))

    converse(serve_model, repository, replies, scene, save=False)


@pytest.mark.parametrize(
    ("tokens", "shown"),
    [(0, "0"), (950, "950"), (1_000, "1k"), (12_345, "12.3k"), (80_000, "80k"), (1_250_000, "1.2M")],
)
def test_short_numbers(tokens: int, shown: str) -> None:
    assert short(tokens) == shown


@pytest.mark.full
def test_the_prompt_does_not_wait_for_what_loads_slowly() -> None:
    slow = "pydantic_ai", "pydantic_ai_harness", "openai", "anthropic", "genai_prices", "rich.markdown"
    code = f"import sys, wane.cli.chat.interactive; print(*sorted(set({slow}) & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == ""


def test_a_session_that_cannot_be_opened_ends_the_chat_with_the_reason(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        chat = Chat(AgentOptions(cwd=repository, model="nobody:x"), Console(file=io.StringIO()))
        with pytest.raises(ModelError, match="'nobody:x' is unknown"):
            asyncio.run(chat.run())
    for name in [name for name in os.environ if name.endswith("_API_KEY")]:
        monkeypatch.delenv(name)
    with pytest.raises(ModelError, match="no model is named"):
        Chat(AgentOptions(cwd=repository), Console(file=io.StringIO()))


def test_a_chat_needs_a_terminal(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    with pytest.raises(UsageError, match="-p"):
        run_chat(AgentOptions(cwd=repository))


def test_the_first_lines_escape_a_directory_and_say_what_confines(serve_model: Serve, project: Path) -> None:
    strange = project.rename(project.with_name("red\x1b[31mred"))

    async def scene(at: Terminal) -> None:
        await at.until("lists the commands")
        assert "red\x1b[31mred" not in at._screen.getvalue()
        assert "red\\x1b[31mred" in at._screen.getvalue().replace("\n", "")
        at.say("/permissions")
        await at.until("run unasked")

    converse(serve_model, strange, [], scene)
