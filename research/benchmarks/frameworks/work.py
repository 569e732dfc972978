"""What an agent does in `comparison.py`, in memory: files, tools, tests, and what is counted of its requests."""

from __future__ import annotations

import builtins
import fnmatch
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import takewhile
from types import SimpleNamespace
from typing import Any

from wane.core import Kind
from wane.testing import Message, Part, Reply, Request
from wane_research.closed_loop.mind import decide
from wane_research.closed_loop.sight import Sight
from wane_research.closed_loop.work import Task, Work

MOST_CALLS = 60  # model calls after which a task is given up
SUMMARY_CHARS = 8_000  # A summary is as long as those of common harnesses, some 2,000 tokens

CACHE_READ, CACHE_WRITE = 0.1, 1.25
"""Prices of an input token, as shares of that of one without a cache, as in the figures of the demo."""

ASKED = "What the user has asked for:"
_TASK = re.compile(r"(Task (\d+)\. Add [^\n<]*)")
_TICKET = re.compile(r"ticket for (?:the )?(\w+)(?:: | is )(\d+)")


class Workbench:
    """The repository, its tools and its tests."""

    def __init__(self, work: Work) -> None:
        self.files = {path: module.text for path, module in work.world.modules.items()}
        self.tickets = dict(work.world.tickets)
        self.modules = work.world.modules

    def tools(self) -> list[Callable[..., str]]:
        """Return the tools, as functions that any framework can take."""

        def read_file(path: str) -> str:
            """Read a file."""
            text = self.files.get(path)
            return f"Error: there is no {path}." if text is None else f"[{path}]\n{text}"

        def grep(pattern: str, glob: str) -> str:
            """Search the lines of files for a regular expression."""
            found = [
                f"{path}: {line}"
                for path in fnmatch.filter(self.files, glob)
                for line in self.files[path].splitlines()
                if re.search(pattern, line)
            ]
            return "\n".join(found) or "No matches."

        def list_files(glob: str) -> str:
            """List files."""
            return "\n".join(fnmatch.filter(self.files, glob)) or "No files."

        def edit_file(
            path: str, old_text: str = "", new_text: str = "", replacements: list[dict[str, str]] | None = None
        ) -> str:
            """Replace text of a file, once or several times."""
            text = self.files[path]
            for each in replacements or [{"old_text": old_text, "new_text": new_text}]:
                if text.count(each["old_text"]) != 1:
                    return f"Error: old_text was not found in {path} exactly once."
                text = text.replace(each["old_text"], each["new_text"])
            self.files[path] = text
            return f"Edited {path}."

        def shell(command: str) -> str:
            """Run a command."""
            what, about = command.removeprefix("sh ").split()
            if what == "check":
                return self.check(about)
            ticket = self.tickets.pop(about, None)
            return (
                f"the ticket for {about} has been drawn already" if ticket is None else f"ticket for {about}: {ticket}"
            )

        return [read_file, grep, list_files, edit_file, shell]

    def check(self, area: str) -> str:
        """Run the tests of an area."""
        checks = [(module.path, call, result) for module in self.modules.values() for call, result in module.checks]
        mine = [(path, call, result) for path, call, result in checks if path.split("/")[1] == area]
        failed = [f"FAILED {call}" for path, call, result in mine if self._value(path, call) != result]
        return "\n".join([*failed, f"{len(mine)} tests, {len(failed)} failed"])

    def accepts(self, task: Task) -> bool:
        """Tell whether a task was done: its function returns what it must, and what was to change has changed."""
        if self._value(task.path, f"{task.function}()") != task.result:
            return False
        return all(self._value(path, "QUOTA") == value for path, value in task.quotas)

    def _value(self, path: str, expression: str) -> object:
        try:
            return eval(expression, self._module(path))
        except Exception as error:
            return error

    def _module(self, path: str) -> dict[str, Any]:
        space: dict[str, Any] = {"__builtins__": {**vars(builtins), "__import__": self._import}}
        exec(self.files[path], space)
        return space

    def _import(self, name: str, *given: Any) -> Any:
        path = f"{name.replace('.', '/')}.py"
        return SimpleNamespace(**self._module(path)) if path in self.files else builtins.__import__(name, *given)


@dataclass
class Figures:
    """What a run came to."""

    tasks: int = 0  # how many were given
    done: int = 0  # how many of them were done
    calls: int = 0  # model calls for the work itself
    over: int = 0  # requests among them that held more than the budget
    largest: int = 0  # tokens of the largest of them
    tokens: int = 0  # tokens of all of them
    reused: int = 0  # how many of these are the beginning of the request before
    missing: int = 0  # requests that lacked a turn of the user's, word for word
    summaries: int = 0  # model calls for summaries
    summary_tokens: int = 0  # tokens of their requests
    reads: int = 0  # files that were read
    again: int = 0  # files among them that had been read before and had not changed since
    again_tokens: int = 0  # tokens that the latter brought
    refused: int = 0  # requests that a provider would not have taken

    @property
    def priced(self) -> float:
        """Input tokens by price: what repeats the beginning of the request before as a cache read, the rest as a write.

        What a summary is made from is a request of its own, which repeats nothing.
        """
        return CACHE_READ * self.reused + CACHE_WRITE * (self.tokens - self.reused + self.summary_tokens)


@dataclass
class Model:
    """The scripted model of one run. What it knows stands in the request; what does not, it looks up again."""

    bench: Workbench
    budget: int
    figures: Figures = field(default_factory=Figures)
    turns: list[str] = field(default_factory=list)
    left: int = MOST_CALLS
    seen: dict[str, str] = field(default_factory=dict)
    before: tuple[Any, ...] = ()

    def answer(self, request: Request) -> Reply:
        """Answer a request, and count it."""
        if not request.tools:
            self.figures.summaries += 1
            self.figures.summary_tokens += request.tokens
            return summary(request)
        self._count(request)
        self.left -= 1
        request = heard(request)
        if self.left < 0:
            return Reply(f"{Sight(request).number}.done I was stopped.")
        reply = decide(request)
        for call in reply.calls:
            if call.tool == "read_file" and not isinstance(call.arguments, str):
                self._read(call.arguments["path"])
        return reply

    def _count(self, request: Request) -> None:
        figures, tokens = self.figures, request.tokens
        figures.calls += 1
        figures.over += tokens > self.budget
        figures.largest = max(figures.largest, tokens)
        figures.tokens += tokens
        said = {part.text for part in request.parts if part.kind is Kind.USER}
        figures.missing += any(turn not in said for turn in self.turns)
        now = ((request.tools, request.tool_tokens), *request.parts)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(self.before, now, strict=False)))
        figures.reused += sum(part.tokens for part in request.parts[: max(0, same - 1)])
        figures.reused += request.tool_tokens if same else 0
        self.before = now

    def _read(self, path: str) -> None:
        text = self.bench.files.get(path, "")
        self.figures.reads += 1
        if self.seen.get(path) == text:
            self.figures.again += 1
            self.figures.again_tokens += len(text) // 4
        self.seen[path] = text


def summary(request: Request) -> Reply:
    """Write a summary that is good at what counts here: the user's tasks, the newest first, and each ticket drawn.

    It reads them wherever they stand, also in an earlier summary, and writes nothing else.
    """
    tasks, tickets = dict[int, str](), dict[str, str]()
    for part in request.parts:
        if part.kind is Kind.SYSTEM:
            continue
        text = part.text.replace("\\n", "\n")
        tasks |= {int(number): said.strip() for said, number in _TASK.findall(text)}
        tickets |= dict(_TICKET.findall(text))
    kept = [f"The ticket for {area} is {value}." for area, value in sorted(tickets.items())]
    room = SUMMARY_CHARS - sum(map(len, kept))
    chosen = list[str]()
    for number in sorted(tasks, reverse=True):
        room -= len(tasks[number]) + 1
        if room < 0:
            break
        chosen.append(tasks[number])
    return Reply("\n".join([ASKED, *kept, *reversed(chosen)]))


def heard(request: Request) -> Request:
    """A request with summaries as what the user has said, in whichever role they stand."""
    return replace(request, messages=tuple(Message(it.role, tuple(map(_heard, it.parts))) for it in request.messages))


def _heard(part: Part) -> Part:
    if part.kind in (Kind.TEXT, Kind.USER, Kind.SYSTEM) and ASKED in part.text:
        return replace(part, kind=Kind.USER, text=part.text[part.text.index(ASKED) :])
    # Inspect AI puts a line break ahead of words that follow reasoning.
    return replace(part, text=part.text.lstrip()) if part.kind is Kind.TEXT else part
