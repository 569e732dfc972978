"""What the model says to a coding agent: three turns of reading, changing and running, with and without marks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from wane.testing import Call, Reply

PROMPTS = (
    "PROMPT one: have a.py print 42.",
    "PROMPT two: note what you did in notes.txt.",
    "PROMPT three: check it all once more.",
)
ANSWERS = ("It prints 42 now.", "Noted.", "All is well.")


class Hands(Protocol):
    """The tools of an agent."""

    def read(self, path: str) -> Call: ...

    def run(self, command: str) -> Call: ...

    def edit(self, path: str, old: str, new: str) -> Call: ...


def furnish(work: Path) -> None:
    """Put into a directory what the work is about."""
    (work / "a.py").write_text("print(41)\n")
    for number in range(1, 5):
        lines = [f"Line {line} of text {number}, which nobody needs for long." for line in range(250)]
        (work / f"big{number}.txt").write_text("\n".join(lines) + "\n")


@dataclass(frozen=True)
class Step:
    """A reply that the client gets, and the marks that the model makes alone before it, or beside its calls."""

    reply: Reply
    alone: tuple[Call, ...] = ()
    beside: tuple[Call, ...] = ()


def start(name: str, kind: str, *dependencies: str) -> Call:
    given = {"dependencies": list(dependencies)} if dependencies else {}
    return Call("delimiter", {"action": "start", "name": name, "type": kind, **given})


def end(description: str = "") -> Call:
    return Call("delimiter", {"action": "end", **({"description": description} if description else {})})


def turns(hands: Hands) -> tuple[tuple[Step, ...], ...]:
    """The three turns. Every way to mark is in them: alone, beside one call or several, two marks at once."""
    return (
        (
            Step(Reply("I look.", "What is there?", (hands.read("big1.txt"),)), alone=(start("look", "expl"),)),
            Step(Reply(calls=(hands.read("big2.txt"),))),
            Step(
                Reply("Now change it.\n", "It is simple.", (hands.edit("a.py", "41", "42"),)),
                beside=(end("a.py prints 41; the texts are of no use."), start("fix", "act", "look")),
            ),
            Step(Reply(calls=(hands.run("python3 a.py"), hands.run("wc -l big1.txt")))),
            Step(Reply(ANSWERS[0]), alone=(end(),)),
        ),
        (
            Step(Reply(None, "More to see.", (hands.read("big3.txt"),)), beside=(start("look-more", "expl"),)),
            Step(Reply("And the last.", None, (hands.read("big4.txt"),))),
            Step(
                Reply(calls=(hands.run("echo 'a.py prints 42' >> notes.txt"),)),
                alone=(end("Nothing in big3.txt and big4.txt."), start("note", "act")),
            ),
            Step(Reply(ANSWERS[1], "That was all.")),
        ),
        (
            # Agents run calls that only read at once, and send their results as they come: this one does more.
            Step(
                Reply(None, "Once more.", (hands.run("python3 a.py && cat notes.txt"), hands.read("big2.txt"))),
                beside=(end(),),
            ),
            Step(Reply(calls=(hands.read("big1.txt"),)), alone=(start("again", "expl"),)),
            Step(Reply(ANSWERS[2])),
        ),
    )


def plain(turn: Sequence[Step]) -> list[Reply]:
    """What a model says that marks nothing."""
    return [step.reply for step in turn]


def marked_replies(turn: Sequence[Step], *, aloud: bool = False) -> Iterator[Reply]:
    """What a model says that marks its work.

    Args:
        turn: the steps.
        aloud: whether it thinks and talks as it marks, where more is to come.
    """
    for number, step in enumerate(turn):
        if step.alone:
            talks = aloud and number + 1 < len(turn)
            said, thought = ("I mark that.", "An episode.") if talks else (None, None)
            yield Reply(said, thought, step.alone)
        yield replace(step.reply, calls=(*step.beside, *step.reply.calls))


def places(turn: Sequence[Step]) -> Iterator[bool]:
    """For each reply of `marked_replies`, whether `plain` has it too."""
    for step in turn:
        if step.alone:
            yield False
        yield True
