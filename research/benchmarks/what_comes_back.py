"""What the note at an act's start saves: docs/decisions/what-comes-back.md.

    python research/benchmarks/what_comes_back.py scripted [--pairs 20] [--budget 16k] [--seed 0]
    python research/benchmarks/what_comes_back.py recorded SESSIONS…

Scripted: the real agent, with a script as its model. In each pair of tasks the model reads eight modules, and some
tasks later writes a function from the constants of some of them, in an act that declares that exploration. What has
left the view it fetches in one of three ways. Recorded: how often an act of a recorded session, with inferred episodes,
would have had the note.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from frame import parser, recorded_sessions, table_head, table_row
from wane.agent.config import AgentSettings as AgentSettings
from wane.agent.session import AgentSession, Outcome, SessionConfig
from wane.conversation.context import ContextSettings
from wane.conversation.engine import Engine
from wane.core import DELIMITER, ContextWindow, Episode, EpisodeType, parse_budget
from wane.lab.counting import Material, count
from wane.lab.loss.need_index import Files
from wane.scripted.demo.model import ScriptedModel
from wane.scripted.model_calls import act, edit, end, explore, read, shell
from wane.scripted.repository import python_for_commands
from wane.scripted.sight import Heard
from wane.scripted.witness import RequestWitness, Tally
from wane.testing import Call, Reply, Request
from wane_research.closed_loop.play import Owner
from wane_research.closed_loop.sight import Sight
from wane_research.closed_loop.work import Task
from wane_research.closed_loop.world import make_world

EXPLORED: Final = 8  # modules that an exploration reads: a quarter of the budget

FILE_SHARE: Final = 1 / 32

Way = Literal["reads again", "by the note", "by the note, whole", "recalls"]
"""How the model gets back what is not in view: it reads the files; it recalls a part, or the whole exploration, if the
note says so, and reads otherwise; or it always recalls, because the guidance names the tool."""

_EXPLORE: Final = re.compile(r"^Task (\d+)\. Read ((?:`[^`]+`(?:, )?)+)\.", re.MULTILINE)
_BUILT_ON: Final = re.compile(r"Build on what you read in task (\d+)\.")
_QUOTA: Final = r"QUOTA: Final = \d+"
_FOUND: Final = re.compile(r'\d+\. [^\n]*"path": ?"([^"]+)"[^\n]*\n(?:\[[^\n]*\]\n)?(?s:.*?)QUOTA: Final = (\d+)')
_FILE: Final = re.compile(r"\[(\S+\.py) \| \d+ lines\](?:(?!\[\S+\.py \|)(?s:.))*?QUOTA: Final = (\d+)")
_MORE: Final = re.compile(r"Go on with: (\{.*\})\]")
_BETWEEN_PAGES: Final = re.compile(r"^Episode [^\n]*:\n\n|\n\n\[There is more\. Go on with: [^\n]*\]$")
_GONE: Final = re.compile(r"(?<=\.) (?:The|Some) steps of [^\n]* left your view\. [^\n]*")
_NOTE: Final = "left your view. `recall`"


@dataclass(frozen=True)
class Case:
    """One run."""

    note: bool  # whether the model sees the note; if not, it is removed from the requests
    way: Way  # what the model does about it
    gap: int  # pairs begun between an exploration and the act that builds on it
    needed: int  # modules of the exploration that the act needs


@dataclass
class Counts:
    """Figures of a run besides the tally."""

    acts: int = 0  # acts that were started
    noted: int = 0  # acts whose start had the note
    lacking: int = 0  # acts whose first request after the start lacked something that they needed
    fetched: int = 0  # files that acts read because they lacked something
    fetched_tokens: int = 0  # tokens of these reads, and of the pages of `recall`
    passed: int = 0  # tasks that passed
    tasks: int = 0  # tasks that have a test


def make_tasks(seed: int, pairs: int, gap: int, needed: int, modules: dict[str, int]) -> Iterator[Task]:
    """Yield the tasks: pairs of reading and writing, with `gap` other pairs begun in between."""
    pick = random.Random(f"{seed}:comes-back")
    number = itertools.count(1)
    waiting: list[tuple[int, list[str]]] = []
    names = (f"sum_{index:02}" for index in itertools.count(1))
    for begun in range(pairs + gap):
        if begun < pairs:
            explored = pick.sample(list(modules), EXPLORED)
            first = next(number)
            waiting.append((first, explored))
            paths = ", ".join(f"`{path}`" for path in explored)
            yield Task(first, f"Task {first}. Read {paths}. A later task needs them; change nothing yet.", "", "", 0)
        if begun >= gap:
            before, explored = waiting.pop(0)
            second, name = next(number), next(names)
            used = pick.sample(explored, needed)
            target = pick.choice([path for path in modules if path not in explored])
            paths = ", ".join(f"`{path}`" for path in used)
            prompt = (
                f"Task {second}. Add a function to `{target}`, `{name}`. It takes nothing and returns one number: the "
                f"sum of QUOTA of {paths}. Build on what you read in task {before}."
            )
            yield Task(second, prompt, target, name, sum(modules[path] for path in used))


class Mind:
    """Decides from one request alone. It reads nothing that it sees."""

    def __init__(self, way: Way, counts: Counts) -> None:
        self.way = way
        self.counts = counts
        self._noticed: set[int] = set()

    def __call__(self, request: Request) -> Reply:
        sight = Sight(request)
        heard = [entry.text for entry in sight.entries if isinstance(entry, Heard)][-1]
        if match := _EXPLORE.search(heard):
            return self._explores(sight, int(match[1]), re.findall(r"`([^`]+)`", match[2]))
        return self._acts(sight, int(_BUILT_ON.findall(heard)[0]))

    def _explores(self, sight: Sight, number: int, paths: Sequence[str]) -> Reply:
        if not sight.at:
            return Reply(f"{number}.read Read them.", calls=(explore(f"t{number}-read"), *map(read, paths)))
        if sight.at == "read":
            return Reply(f"{number}.end I know them.", calls=(end(f"t{number}-read", f"Read {', '.join(paths)}."),))
        return Reply(f"{number}.done I have read them.")

    def _acts(self, sight: Sight, before: int) -> Reply:
        task = sight.task
        assert task is not None
        number, name = task.number, f"t{task.number}-write"
        if not sight.at:
            return Reply(f"{number}.start Write it.", calls=(act(name, [f"t{before}-read"]), read(task.target)))
        if sight.at == "fetch":
            self.counts.fetched += sum(call.tool == "read_file" for call in sight.latest)
            self.counts.fetched_tokens += sum(-(-len(call.result or "") // 4) for call in sight.latest)
        if sight.at in ("start", "fetch"):
            self._notice(sight, number, task.quotas)
            facts = {of: value for (about, of), value in sight.facts.items() if about == "quota"}
            facts |= _recalled_constants(sight)
            if missing := [path for path in task.quotas if path not in facts]:
                return Reply(f"{number}.fetch I do not see all.", calls=self._fetch(sight, f"t{before}-read", missing))
            return Reply(f"{number}.write Write it.", calls=(_edit(sight, [facts[path] for path in task.quotas]),))
        if sight.at == "write":
            return Reply(f"{number}.check Check it.", calls=(shell(f"sh check {task.target.split('/')[1]}"), end(name)))
        return Reply(f"{number}.done It is written.")

    def _fetch(self, sight: Sight, name: str, missing: Sequence[str]) -> tuple[Call, ...]:
        pages = [call.result or "" for call in sight.tried if call.tool == "recall"]
        if pages:
            more = _MORE.search(pages[-1])
            return (Call("recall", json.loads(more[1])),) if more else tuple(map(read, missing))
        noted = any(call.tool == DELIMITER and _NOTE in (call.result or "") for call in sight.tried)
        recalls = self.way == "recalls" or (self.way != "reads again" and noted)
        if not recalls:
            return tuple(map(read, missing))
        arguments = {"name": name}
        if self.way != "by the note, whole":
            arguments["search"] = _QUOTA
        return (Call("recall", arguments),)

    def _notice(self, sight: Sight, number: int, needed: Sequence[str]) -> None:
        if number in self._noticed:
            return
        self._noticed.add(number)
        self.counts.acts += 1
        self.counts.lacking += any(("quota", path) not in sight.facts for path in needed)
        starts = [call for call in sight.tried if call.tool == DELIMITER]
        self.counts.noted += any("left your view" in (call.result or "") for call in starts)


def _recalled_constants(sight: Sight) -> dict[str, str]:
    """The constants that pages of `recall` show, by path."""
    text = "".join(_BETWEEN_PAGES.sub("", call.result or "") for call in sight.tried if call.tool == "recall")
    found = dict(_FOUND.findall(text))
    # The whole exploration shows each call, and after it the file with its heading.
    return found | dict(_FILE.findall(text))


def _edit(sight: Sight, values: Sequence[str]) -> Call:
    assert sight.task is not None
    target, name = sight.task.target, sight.task.function
    exports = sight.facts["exports", target]
    code = f'def {name}() -> int:\n    return {" + ".join(values)}\n\n\n{exports[:-1]}, "{name}"]'
    return edit(target, [{"old_text": exports, "new_text": code}])


def play(case: Case, *, pairs: int, budget: int, seed: int) -> tuple[Tally, Counts]:
    world = make_world(seed, areas=8, modules=5, file_tokens=int(budget * FILE_SHARE))
    modules = {path: module.quota for path, module in world.modules.items()}
    tasks = list(make_tasks(seed, pairs, case.gap, case.needed, modules))
    counts, witness = Counts(), RequestWitness(budget)
    mind = Mind(case.way, counts)

    async def answer(request: Request) -> Reply:
        return witness.answer(request if case.note else _without_notes(request), mind)

    settings = AgentSettings(model=ScriptedModel(answer), budget=budget, yolo=True)
    with python_for_commands(), tempfile.TemporaryDirectory() as place:
        owner = Owner(Path(place) / "depot", world)
        session = AgentSession.create(SessionConfig(owner.directory, settings))
        asyncio.run(_work(session, owner, tasks, witness, counts))
        session.close()
    return witness.tally, counts


async def _work(
    session: AgentSession, owner: Owner, tasks: Sequence[Task], witness: RequestWitness, counts: Counts
) -> None:
    for task in tasks:
        witness.turns.append(task.prompt)
        turn = await session.run(task.prompt)
        if not task.path:
            continue
        counts.tasks += 1
        passed = owner.verify(task).passed and turn.outcome is Outcome.DONE
        counts.passed += passed
        owner.accept(task, passed=passed)


def _without_notes(request: Request) -> Request:
    messages = []
    for message in request.messages:
        parts = tuple(replace(part, text=_GONE.sub("", part.text)) for part in message.parts)
        messages.append(replace(message, parts=parts))
    return replace(request, messages=tuple(messages))


def row(case: Case, tally: Tally, counts: Counts) -> str:
    cells = [
        *("on" if case.note else "off", case.way, case.gap, f"{case.needed} of {EXPLORED}"),
        f"{counts.passed} of {counts.tasks}",
        *(f"{counts.lacking} of {counts.acts}", counts.noted, counts.fetched),
        *(tally.recalls, f"{counts.fetched_tokens:,}", tally.model_calls, f"{tally.input_tokens:,}"),
        f"${tally.cost.total:.2f}",
    ]
    return table_row(cells)


COLUMNS: Final = (
    *("note", "model", "gap", "needs", "passed", "lack something", "noted", "files read again", "recalls"),
    *("tokens of both", "calls", "input tokens", "cost"),
)


@dataclass
class Recorded:
    """Figures of recorded sessions."""

    acts: int = 0  # inferred acts
    declaring: int = 0  # those that declare an exploration
    whole: int = 0  # acts among these with a declared exploration that had left the view when they started
    part: int = 0  # acts among these with one of which only a part had left
    edits: int = 0  # files that such acts edit and that such an exploration was the last to read
    lacking: int = 0  # files among these whose read is not in view at the edit: a model would have to fetch them
    lacking_tokens: int = 0  # tokens of these reads
    all_lacking: int = 0  # edited files of the whole sessions whose latest read is not in view, whatever read them


def follow(material: Material, budget: int, counts: Recorded) -> None:
    """Take in a recorded session with inferred episodes, and count."""
    engine = Engine(ContextSettings(budget, overhead=material.overhead, annotate="infer"))
    parts, items = material.session.parts, material.items
    files = Files(material.session)
    taken = 0
    absent: set[str] = set()
    known: set[tuple[int, int]] = set()  # the read files of each act
    for call in material.session.calls:
        for stop in (call.first, call.stop):
            for index in range(taken, stop):
                opened = engine.add(items[index], parts[index]).opened
                if opened is not None and opened.type is EpisodeType.ACT:
                    absent = _start(engine.window, opened, counts)
            taken = max(taken, stop)
            if stop == call.first:
                engine.fit()
                engine.mark_sent()
        window, active = engine.window, engine.window.active
        for result in files.reads_needed(call):
            key = (active.number if active is not None else -1, result)
            if key in known:
                continue
            known.add(key)
            gone = not window.shows(result)
            counts.all_lacking += gone
            acts = active is not None and active.type is EpisodeType.ACT
            if acts and any(result in span for name in absent for span in window.members(name)):
                counts.edits += 1
                counts.lacking += gone
                counts.lacking_tokens += items[result].tokens if gone else 0


def _start(window: ContextWindow, act: Episode, counts: Recorded) -> set[str]:
    """Count an act that starts; return the declared explorations that have left the view at least in part."""
    absences = {name: window.absence(name) for name in act.dependencies}
    counts.acts += 1
    counts.declaring += bool(absences)
    if "all" in absences.values():
        counts.whole += 1
    elif "some" in absences.values():
        counts.part += 1
    return {name for name, absence in absences.items() if absence != "none"}


def print_recorded(paths: Sequence[Path]) -> None:
    materials = [count(session) for session in recorded_sessions(paths)]
    columns = ["budget", "sessions", "acts", "declare", "all gone", "some gone"]
    print(table_head([*columns, "files edited", "to fetch", "tokens", "all to fetch"]))
    for budget in (80_000, 50_000, 20_000):
        counts = Recorded()
        for material in materials:
            follow(material, budget, counts)
        cells = [f"{budget:,}", len(materials), counts.acts, counts.declaring, counts.whole, counts.part]
        cells += [counts.edits, counts.lacking, f"{counts.lacking_tokens:,}", counts.all_lacking]
        print(table_row(cells), flush=True)


def main() -> None:
    command = parser(__doc__)
    command.add_argument("what", choices=["scripted", "recorded"])
    command.add_argument("sessions", type=Path, nargs="*", help="recorded sessions, or folders of them")
    command.add_argument("--pairs", type=int, default=20)
    command.add_argument("--budget", default="16k")
    command.add_argument("--seed", type=int, default=0)
    arguments = command.parse_args()
    if arguments.what == "recorded":
        if not arguments.sessions:
            command.error("recorded: give recorded sessions, or folders of them")
        print_recorded(arguments.sessions)
        return
    ways: tuple[tuple[bool, Way], ...] = (
        *((False, "reads again"), (True, "reads again")),
        *((False, "by the note"), (True, "by the note"), (True, "by the note, whole")),
        *((False, "recalls"), (True, "recalls")),
    )
    print(table_head(COLUMNS), flush=True)
    for gap, needed in itertools.product((1, 4), (2, EXPLORED)):
        for note, way in ways:
            case = Case(note, way, gap, needed)
            tally, counts = play(
                case, pairs=arguments.pairs, budget=parse_budget(arguments.budget), seed=arguments.seed
            )
            print(row(case, tally, counts), flush=True)


if __name__ == "__main__":
    main()
