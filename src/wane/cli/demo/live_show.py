"""Shows a run as it goes on: a live window on a terminal, and lines elsewhere."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text
from typing_extensions import override

from wane.agent.session import AgentSession
from wane.cli.terminal import layout
from wane.cli.terminal.picture import Band, Role, WindowPicture
from wane.cli.terminal.text import count_noun, is_unicode, printable
from wane.core import FitReport, Kind
from wane.scripted.demo.demo_summary import DemoWitness, TaskResult
from wane.scripted.demo.mind import Decision
from wane.scripted.demo.moves import Task
from wane.scripted.demo.play import DemoOptions, Show
from wane.scripted.sight import is_note, view_tokens
from wane.strategies.registry import traits
from wane.testing import Call, Request
from wane.words import TYPES, name_strategy

TITLE: Final = "wane demo"
SUBTITLE: Final = "a scripted model, not a language model; all else is real"
"""Shown from the first line on."""

SECONDS_A_CALL: Final = 0.05
SECONDS_A_PASS: Final = 0.7
"""Seconds that an answer waits on a terminal, so that an eye can follow."""

_LABEL: Final = 9  # as wide as the labels of the picture
_BAR_ROWS: Final = 2


class LineShow(Show):
    """One line for each task and each pass."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._tasks = 0
        self._passes = 0

    @override
    def begins(self, session: AgentSession, witness: DemoWitness, options: DemoOptions) -> None:
        super().begins(session, witness, options)
        self._tasks = len(options.script)
        self._say(f"{TITLE}: {SUBTITLE}")
        self._say(f"strategy {options.strategy}, budget {options.budget:,} tokens, session {session.id}")

    @override
    def show_pass(self, report: FitReport) -> None:
        self._passes += 1
        self._say(f"  pass {self._passes}: {_pass_text(report)}")

    @override
    def task_ends(self, result: TaskResult) -> None:
        verdict = "passed" if result.passed else "FAILED"
        counts = f"{count_noun(result.model_calls, 'model call')}, {count_noun(result.input_tokens, 'token')} in"
        self._say(f"task {result.number:2}/{self._tasks} {verdict}  {result.title}  ({counts})")

    def _say(self, text: str) -> None:
        self._console.print(printable(text), soft_wrap=True)


class LiveShow(Show):
    """Draws the window, the tasks and the model's latest words on a terminal, at each call. A context manager."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False, transient=True, vertical_overflow="crop")
        self._scene: _Scene  # from the beginning of the demo on

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    @override
    def begins(self, session: AgentSession, witness: DemoWitness, options: DemoOptions) -> None:
        super().begins(session, witness, options)
        self._scene = _Scene(session, witness, options)
        self._draw()

    @override
    def task_begins(self, number: int, task: Task) -> None:
        self._scene.task = number
        self._scene.log.append(Text(f"  you {task.prompt}", style="green"))
        self._draw()

    @override
    def show_pass(self, report: FitReport) -> None:
        # For the picture at the next request.
        self._scene.report = report
        self._scene.log.append(Text(f" pass {_pass_text(report)}", style="bold yellow"))

    @override
    async def show_exchange(self, request: Request, decision: Decision | None) -> None:
        scene = self._scene
        if decision is None:
            scene.log.append(Text(" the model is asked for a summary", style="bold yellow"))
            return
        scene.sizes.append(view_tokens(request))
        scene.request = request
        if scene.report is not None:
            self._draw()
            await asyncio.sleep(SECONDS_A_PASS)
            scene.report = None
        scene.log.extend(_reply_lines(decision))
        self._draw()
        await asyncio.sleep(SECONDS_A_CALL)

    @override
    def task_ends(self, result: TaskResult) -> None:
        self._scene.results.append(result)
        self._draw()

    def _draw(self) -> None:
        self._live.update(self._scene.render(self._live.console), refresh=True)


@dataclass(slots=True)
class _Scene:
    """Everything in the live picture."""

    session: AgentSession
    witness: DemoWitness
    options: DemoOptions
    task: int = 0
    results: list[TaskResult] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    log: deque[Text] = field(default_factory=lambda: deque(maxlen=40))
    request: Request | None = None
    report: FitReport | None = None

    def render(self, console: Console) -> RenderableType:
        glyphs = _UNICODE if is_unicode(console.encoding) else _ASCII
        above: list[RenderableType] = [
            Text.assemble(
                (f" {TITLE} ", "reverse bold"), f" {name_strategy(self.options.strategy)} ", (SUBTITLE, "dim")
            ),
            self._tasks(glyphs),
            # The picture of a pass is two lines higher; the rest must not jump.
            Text() if self.report else Text("\n\n"),
            WindowPicture(self._blocks(), self.options.budget),
            self._doing(),
            *_sawtooth(self.sizes, self.options.budget, console.width - _LABEL - 1, glyphs),
            self._counts(),
            Text(),
        ]
        lines = console.render_lines(Group(*above), console.options, pad=False)
        room = max(1, console.height - len(lines) - 1)
        return Group(*above, *(_fit(text, console) for text in list(self.log)[-room:]))

    def _doing(self) -> Text:
        active = self.session.window.active
        if not traits(self.options.strategy).marked or active is None:
            return Text()
        what = TYPES[active.type.value]
        on = f", building on {', '.join(active.dependencies)}" if active.dependencies else ""
        return Text(f"{' now':{_LABEL}}{what} in {printable(active.name or '')}{on}", style="italic", no_wrap=True)

    def _tasks(self, glyphs: _Glyphs) -> RenderableType:
        table = Table.grid(padding=(0, 2), expand=False)
        tasks = [self._task(index, glyphs) for index in range(len(self.options.script))]
        half = (len(tasks) + 1) // 2
        for row in range(half):
            table.add_row(*tasks[row::half])
        return table

    def _task(self, index: int, glyphs: _Glyphs) -> Text:
        if index < len(self.results):
            mark, style = (glyphs.passed, "green") if self.results[index].passed else (glyphs.failed, "bold red")
        elif index + 1 == self.task:
            mark, style = glyphs.current, "bold"
        else:
            mark, style = glyphs.later, "dim"
        return Text(f" {mark} {index + 1:2} {self.options.script[index].title}", style=style)

    def _blocks(self) -> list[Band]:
        if not traits(self.options.strategy).by_episode:
            return _plain_blocks(self.request) if self.request else []
        steps = self.report.steps if self.report else ()
        removed = [index for step in steps for index in step.removed]
        session = self.session
        return layout.view_blocks(self.witness.items, session.episodes, session.window, removed, done=True)

    def _counts(self) -> Text:
        tally, witness = self.witness.tally, self.witness
        reuse = tally.cache_read_tokens / tally.input_tokens if tally.input_tokens else 0
        parts = [f"calls {tally.model_calls}", f"in {tally.input_tokens // 1000:,}k", f"reused {reuse:.0%}"]
        if traits(self.options.strategy).by_episode:
            parts += [f"passes {witness.counts.passes}", f"recalled {tally.recalls}"]
        parts += [f"read again {tally.re_reads}"]
        return Text(f"{' so far':{_LABEL}}" + "  ".join(parts), style="bold", no_wrap=True)


@dataclass(frozen=True, slots=True)
class _Glyphs:
    passed: str
    failed: str
    current: str
    later: str
    bars: str


_UNICODE: Final = _Glyphs("✔", "✘", "▶", "·", " ▁▂▃▄▅▆▇█")
_ASCII: Final = _Glyphs("+", "x", ">", ".", " .:-=+*#@")


def _plain_blocks(request: Request) -> list[Band]:
    """Return the blocks of a request without episodes: what the user said, and everything else."""
    blocks = []
    for part in request.parts:
        if part.kind is not Kind.SYSTEM and not is_note(part):
            role = Role.USER if part.kind is Kind.USER else Role.IMPLICIT
            blocks.append(Band(role, part.tokens))
    base = view_tokens(request) - sum(block.tokens for block in blocks)
    return [Band(Role.SYSTEM, base), *blocks]


def _sawtooth(sizes: Sequence[int], budget: int, width: int, glyphs: _Glyphs) -> Iterator[Text]:
    """Yield the size of each request so far, one column each, against the budget."""
    recent = sizes[-max(10, width) :]
    scale = max([budget, *recent])
    levels = [round(size * _BAR_ROWS * 8 / scale) for size in recent]
    for row in reversed(range(_BAR_ROWS)):
        line = Text(f"{'' if row else ' request':{_LABEL}}", no_wrap=True)
        for size, level in zip(recent, levels, strict=True):
            line.append(glyphs.bars[max(0, min(8, level - 8 * row))], style="red" if size > budget else "cyan")
        yield line


def _reply_lines(decision: Decision) -> Iterator[Text]:
    on_detour = decision.sought and decision.position.detour
    yield Text.assemble((f"{decision.position!s:>5} ", "dim"), (decision.say, "yellow" if on_detour else ""))
    for call in decision.calls:
        style = "magenta" if call.tool == "delimiter" else "cyan"
        yield Text.assemble((f"      {call.tool} ", style), (_brief(call), "dim"))


def _brief(call: Call) -> str:
    """Return what a call is about, in a few words."""
    arguments: dict[str, Any] = json.loads(call.raw_arguments)
    if call.tool == "delimiter":
        if arguments["action"] == "end":
            return f"end: {arguments['description']}" if "description" in arguments else "end"
        start = f"start {arguments.get('type')} {arguments.get('name')}"
        if dependencies := arguments.get("dependencies"):
            start += f", building on {', '.join(dependencies)}"
        return start
    for key in ("path", "command", "pattern", "glob", "name"):
        if key in arguments:
            return str(arguments[key])
    return ""


def _fit(text: Text, console: Console) -> Text:
    line = Text(printable(text.plain.replace("\n", " ")), spans=text.spans, style=text.style)
    line.truncate(console.width - 1, overflow="ellipsis" if is_unicode(console.encoding) else "crop")
    return line


def _pass_text(report: FitReport) -> str:
    """Return a pass in one line."""
    names: Iterable[str] = dict.fromkeys(layout.name_of(step.number, step.episode) for step in report.steps)
    text = f"{report.tokens_before:,} to {report.tokens_after:,} tokens, from {', '.join(names) or 'nothing'}"
    return text if report.satisfied else f"{text}; still over the budget"
