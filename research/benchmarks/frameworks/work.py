"""The work of `comparison.py`, in memory: files, tools, tests, the scripted model, and figures of its requests."""

from __future__ import annotations

import builtins
import fnmatch
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

from wane.core import Kind
from wane.testing import Message, Part, Reply, Request
from wane_research.closed_loop.mind import decide
from wane_research.closed_loop.sight import Sight
from wane_research.closed_loop.work import Task, Work

MOST_CALLS = 60  # model calls after which a task is given up
SUMMARY_CHARS = 8_000  # length of a summary, as in common harnesses: some 2,000 tokens

CACHE_READ, CACHE_WRITE = 0.1, 1.25
"""Prices of a cached and of a written input token, relative to an uncached one, as in the figures of the demo."""

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
            matches: list[str] = []
            for path in fnmatch.filter(self.files, glob):
                lines = self.files[path].splitlines()
                matches += [f"{path}: {line}" for line in lines if re.search(pattern, line)]
            return "\n".join(matches) or "No matches."

        def list_files(glob: str) -> str:
            """List files."""
            return "\n".join(fnmatch.filter(self.files, glob)) or "No files."

        def edit_file(
            path: str, old_text: str = "", new_text: str = "", replacements: list[dict[str, str]] | None = None
        ) -> str:
            """Replace text of a file, once or several times."""
            text = self.files[path]
            for replacement in replacements or [{"old_text": old_text, "new_text": new_text}]:
                if text.count(replacement["old_text"]) != 1:
                    return f"Error: old_text was not found in {path} exactly once."
                text = text.replace(replacement["old_text"], replacement["new_text"])
            self.files[path] = text
            return f"Edited {path}."

        def shell(command: str) -> str:
            """Run a command."""
            what, about = command.removeprefix("sh ").split()
            if what == "check":
                return self.check(about)
            if about not in self.tickets:
                return f"the ticket for {about} has been drawn already"
            return f"ticket for {about}: {self.tickets.pop(about)}"

        return [read_file, grep, list_files, edit_file, shell]

    def check(self, area: str) -> str:
        tests = 0
        failed: list[str] = []
        for module in self.modules.values():
            if module.area == area:
                tests += len(module.checks)
                wrong = [call for call, result in module.checks if self._value(module.path, call) != result]
                failed += [f"FAILED {call}" for call in wrong]
        return "\n".join([*failed, f"{tests} tests, {len(failed)} failed"])

    def accepts(self, task: Task) -> bool:
        """Return whether a task was done: its function returns the right result, and each QUOTA has the right value."""
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
    """The figures of a run."""

    tasks: int = 0  # number of tasks
    done: int = 0  # tasks that were done
    calls: int = 0  # model calls for the work itself
    over: int = 0  # requests of these calls over the budget
    largest: int = 0  # tokens of the largest of these requests
    tokens: int = 0  # tokens of all of them
    reused: int = 0  # tokens of these that repeat the beginning of the request before
    missing: int = 0  # requests that lacked a turn of the user, word for word
    summaries: int = 0  # model calls for summaries
    summary_tokens: int = 0  # tokens of their requests
    reads: int = 0  # files that were read
    again: int = 0  # files read again without a change in between
    again_tokens: int = 0  # tokens of these reads
    refused: int = 0  # requests that the provider refused

    @property
    def priced(self) -> float:
        """Input tokens by price: a repeated beginning of the request before as a cache read, the rest as a write.

        The request for a summary repeats nothing.
        """
        return CACHE_READ * self.reused + CACHE_WRITE * (self.tokens - self.reused + self.summary_tokens)


@dataclass
class Model:
    """The scripted model of one run. It knows only the request, and looks up again what is missing."""

    bench: Workbench
    budget: int
    figures: Figures = field(default_factory=Figures)
    turns: list[str] = field(default_factory=list)
    left: int = MOST_CALLS
    seen: dict[str, str] = field(default_factory=dict)
    tools_before: tuple[Any, int] | None = None
    parts_before: Sequence[Part] = ()

    def answer(self, request: Request) -> Reply:
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
        if (request.tools, request.tool_tokens) == self.tools_before:
            figures.reused += request.tool_tokens
            for part, before in zip(request.parts, self.parts_before, strict=False):
                if part != before:
                    break
                figures.reused += part.tokens
        self.tools_before = (request.tools, request.tool_tokens)
        self.parts_before = request.parts

    def _read(self, path: str) -> None:
        text = self.bench.files.get(path, "")
        self.figures.reads += 1
        if self.seen.get(path) == text:
            self.figures.again += 1
            self.figures.again_tokens += len(text) // 4
        self.seen[path] = text


def summary(request: Request) -> Reply:
    """Write a summary of what counts here: the user's tasks, as many of the newest as fit, and each ticket drawn.

    It finds them anywhere in the request, even in an earlier summary, and writes nothing else.
    """
    tasks: dict[int, str] = {}
    tickets: dict[str, str] = {}
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
    """Return a request with summaries, of any role, as words of the user."""
    return replace(request, messages=tuple(Message(it.role, tuple(map(_heard, it.parts))) for it in request.messages))


def _heard(part: Part) -> Part:
    if part.kind in (Kind.TEXT, Kind.USER, Kind.SYSTEM) and ASKED in part.text:
        return replace(part, kind=Kind.USER, text=part.text[part.text.index(ASKED) :])
    # Inspect AI puts a line break ahead of words that follow reasoning.
    return replace(part, text=part.text.lstrip()) if part.kind is Kind.TEXT else part
