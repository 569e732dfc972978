"""The paper's case studies, played by a script: what is in view when a step begins, and what each way to keep it costs.

    python research/benchmarks/case_studies.py linux SOURCE        # research/case-studies/README.md: 3 minutes
    python research/benchmarks/case_studies.py kernel SOURCE       # the same with a kernel built in each session
    python research/benchmarks/case_studies.py costs redis=SOURCE excalidraw=SOURCE linux=SOURCE

SOURCE is the source that the study's Dockerfile prepares: a folder, which is left as it was. Of Linux, that is the
archive in Debian's package linux-source-6.1, unpacked.

The agent is real, and so are the files that it reads and edits. A script is its model: it reads what a step's reference
patch touches and, for Linux, what a developer would look up; and it applies the patch, edit by edit. It edits only what
it sees: if the lines, or names that an earlier step wrote, are not in view, it reads them first. The tree must be that
of the reference solutions in the end. Only `kernel` builds and runs anything: the agent's shell builds the kernel in
the step `kernel` and boots it with the validation in the step `qemu`. That needs what the study's Dockerfile installs,
and SOURCE at /app/linux, which the validation names.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Final

from frame import parser, print_table
from wane.agent.config import AgentSettings
from wane.agent.session import AgentSession, Outcome, SessionConfig
from wane.conversation import ContextSettings
from wane.core import DELIMITER, Kind
from wane.identifiers import decode_texts
from wane.journal import SessionStore
from wane.scripted.model_calls import act, edit, end, explore, keep_offered, search, shell, write
from wane.scripted.sight import view_tokens
from wane.scripted.summary import SUMMARY_TOKENS
from wane.scripted.witness import MODEL, RequestWitness
from wane.testing import Call, Part, Reply, Request, ScriptedServer
from wane.testing.connected_models import anthropic_model

FOLDER: Final = Path(__file__).parents[1] / "case-studies"
STEPS: Final = {
    "linux": ("syscall", "proc", "kernel", "qemu"),
    "redis": ("novalues", "memory-profiler", "tests"),
    "excalidraw": ("color-wheel", "callout", "pages"),
}
PLACE: Final = Path("/app/linux")  # where the study has its source
PRICES: Final = (MODEL, "openai:gpt-5.4")

FREE: Final = 80_000
UNLIMITED: Final = 1_000_000

SHARE: Final = 0.4  # of a session's whole size: a budget that presses as 80,000 tokens press on sessions of 200,000
WINDOW: Final = 60  # lines that are read on each side of a place
WHOLE: Final = 400  # lines of a file that is read whole
WHOLE_AT_MOST: Final = 4_000  # the same of a model that reads whole files
READ_AT_ONCE: Final = 2  # reads in one answer
WAIT: Final = 240  # seconds that the model waits for a build with one call
MOST_READS: Final = 6  # answers that read what an edit needs, before it is made all the same

# What a developer looks up for a step, besides what its patch touches: searches, and files that are read whole.
LOOKED_UP: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "syscall": (
        ("Documentation/process/adding-syscalls.rst", ""),
        ("kernel/*.c", r"find_get_task_by_vpid\("),
        ("kernel/pid.c", ""),
        ("fs/proc/array.c", ""),
        ("include/linux/sched/*.h", r"get_nr_threads|get_task_mm|mmput\("),
        ("include/linux/sched/mm.h", ""),
        ("include/linux/cred.h", ""),
    ),
    "proc": (
        ("fs/proc/base.c", r"^\s(ONE|REG)\("),
        ("include/linux/seq_file.h", ""),
        ("fs/proc/*.c", r"seq_escape|seq_user_ns"),
    ),
    "kernel": (("kernel/configs/*.config", "CONFIG"), ("init/Kconfig", ""), ("arch/x86/Kconfig", r"^config ")),
    "qemu": (
        ("tools/testing/selftests/proc/*.c", "syscall"),
        ("tools/testing/selftests/proc/proc-pid-vm.c", ""),
        ("Documentation/admin-guide/serial-console.rst", ""),
    ),
}

# What it compares its work with afterwards, before it ends the step: other system calls.
LOOKED_AT_AFTER: Final = {"syscall": (("kernel/sys.c", ""),)}

# What the model runs once a step's files are written, as the reference solutions do, but outside of the sources.
COMMANDS: Final = {
    "kernel": (
        "make O={build} KCONFIG_ALLCONFIG=$PWD/pid_summary/kernel.config tinyconfig"
        " && scripts/config --file {build}/.config --set-str LOCALVERSION -pidsummary"
        " && make O={build} olddefconfig && make O={build} -j$(nproc) bzImage && make -s O={build} kernelrelease"
    ),
    "qemu": "KERNEL={build}/arch/x86/boot/bzImage bash pid_summary/run.sh",
}

# Of the reference solution of `syscall`, what its instruction does not say.
NAMES: Final = {
    "registration": (
        "451\tcommon\tpid_summary",
        "__NR_pid_summary",
        "sys_pid_summary",
        "SYSCALL_DEFINE3(pid_summary",
        "pid_summary.o",
    ),
    "helpers": (
        "get_pid_summary",
        "find_get_task_by_vpid",
        "task_active_pid_ns",
        "current_user_ns",
        "task_tgid_nr_ns",
        "from_kuid_munged",
        "get_nr_threads",
        "get_task_mm",
        "get_mm_rss",
        "mmput",
        "get_task_comm",
        "put_task_struct",
    ),
    "structures": ("struct task_struct", "struct mm_struct", "struct pid_namespace", "struct user_namespace"),
}


@dataclass(frozen=True)
class Change:
    """An edit of a patch: lines of a file and what takes their place; without old lines, a new file."""

    path: str
    old: str
    new: str
    added: tuple[str, ...]


@dataclass(frozen=True)
class Step:
    """A step of a study: what the user says, and the changes of the reference solution."""

    name: str
    prompt: str
    changes: tuple[Change, ...]

    @property
    def files(self) -> list[str]:
        return list(dict.fromkeys(change.path for change in self.changes))

    @cached_property
    def lines(self) -> set[str]:
        """The lines that it adds, without those that say nothing, such as a brace."""
        stripped = {line.strip() for change in self.changes for line in change.added}
        return {line for line in stripped if len(line) > 11}


def read_patch(text: str) -> Iterator[Change]:
    path = ""
    hunk: list[str] = []
    for line in [*text.splitlines(), "--- end"]:
        if line.startswith(("--- ", "@@ ", "diff ")) and hunk:
            old = "".join(f"{row[1:]}\n" for row in hunk if row[:1] != "+")
            new = "".join(f"{row[1:]}\n" for row in hunk if row[:1] != "-")
            yield Change(path, old, new, tuple(row[1:] for row in hunk if row[:1] == "+"))
            hunk = []
        if line.startswith("+++ "):
            path = line[4:].split("\t")[0].removeprefix("b/")
        elif path and line[:1] in ("+", "-", " ") and not line.startswith("--- "):
            hunk.append(line)
        elif line.startswith("diff "):
            path = ""


def read_step(study: str, name: str) -> Step:
    folder = FOLDER / study / "steps" / name
    changes: list[Change] = []
    for file in sorted((folder / "solution").iterdir()):
        text = file.read_text(encoding="utf-8")
        if file.suffix == ".patch":
            changes += read_patch(text)
        elif file.name != "solve.sh":
            # Beside the sources, where the solution's script puts it elsewhere.
            path = f"{'tests/unit/type' if study == 'redis' else 'pid_summary'}/{file.name}"
            changes.append(Change(path, "", text, tuple(text.splitlines())))
    return Step(name, (folder / "instruction.md").read_text(encoding="utf-8").strip(), tuple(changes))


@contextmanager
def restoring(source: Path, steps: Sequence[Step]) -> Iterator[None]:
    """Leave the files that some steps touch as they were."""
    paths = [source / path for step in steps for path in step.files]
    before = {path: path.read_bytes() for path in paths if path.exists()}
    folders = {path.parent for path in paths if not path.parent.exists()}
    try:
        yield
    finally:
        for path in paths:
            if path in before:
                path.write_bytes(before[path])
            else:
                path.unlink(missing_ok=True)
        for folder in folders:
            if folder.exists():
                folder.rmdir()


def text_of(part: Part) -> str:
    """The text of a part; of a call, the values of its arguments."""
    return "\n".join(decode_texts(part.text)) if part.kind is Kind.CALL else part.text


class Sight:
    """What a request shows beside the system prompt."""

    def __init__(self, request: Request) -> None:
        self.tools = request.tools
        shown = [text_of(part) for part in request.parts if part.kind is not Kind.SYSTEM]
        self.text = "\n".join(shown)

    @cached_property
    def lines(self) -> set[str]:
        """Its lines, as they are and without the numbers that a file's have."""
        lines = [line.strip() for line in self.text.splitlines()]
        return {*lines, *(re.sub(r"^\d+\t", "", line).strip() for line in lines)}

    @cached_property
    def words(self) -> set[str]:
        return set(re.findall(r"\w+", self.text))

    def lacks(self, text: str) -> bool:
        return not {line.strip() for line in text.splitlines() if line.strip()} <= self.lines


@dataclass
class StepFigures:
    """What happened in a step."""

    sight: Sight | None = None  # when it began
    before_edit: int = 0  # answers ahead of the first edit
    views: list[int] = field(default_factory=list)  # tokens of each request
    read_again: list[str] = field(default_factory=list)  # because it was not in view when it was needed


@dataclass(frozen=True)
class Case:
    """How a session is kept within a budget, and what the model does."""

    strategy: str
    budget: int
    names_files: bool = False  # the summary names the files that were changed
    compares: bool = False  # after its edits, the model looks at other code before it ends the step
    whole: bool = False  # the model reads files whole, and not only the places that it will change

    @property
    def name(self) -> str:
        return f"`{self.strategy}`{', files named in the summary' if self.names_files else ''}"


class Player:
    """The model: it does a study step by step, and writes the summaries that a strategy asks for."""

    def __init__(self, source: Path, steps: Sequence[Step], case: Case, build: Path | None = None) -> None:
        """`build`: an empty folder for what the model builds; None to build nothing."""
        self.figures = {step.name: StepFigures() for step in steps}
        self.witnesses = [RequestWitness(case.budget, self._summarise, model=name) for name in PRICES]
        self.case = case
        self._build = build
        self._changed: list[str] = []
        self._source = source
        self._steps = steps
        self._at = -1
        self._sight: Sight

    def begin(self, number: int) -> None:
        """The user gives a step."""
        self._at = number
        self._moves = self._plan(self._steps[number])

    def __call__(self, request: Request) -> Reply:
        first, second = self.witnesses
        reply = first.answer(request, self._answer)
        second.answer(request, lambda _: reply)
        return reply

    def _answer(self, request: Request) -> Reply:
        figures = self.figures[self._steps[self._at].name]
        self._sight = Sight(request)
        figures.sight = figures.sight or self._sight
        figures.views.append(view_tokens(request))
        calls: list[Call] = []
        for moves in self._moves:
            calls += keep_offered(moves, request.tools)
            # Marks come in one answer with the next call, as the guidance says.
            if any(call.tool != DELIMITER for call in calls):
                break
        return Reply(calls=tuple(calls)) if calls else Reply(f"The step {self._steps[self._at].name} is done.")

    def _plan(self, step: Step) -> Iterator[list[Call]]:
        changed = f"change-{step.name}"
        reads = [*self._look_up(LOOKED_UP.get(step.name, ()))]
        reads += [call for path in step.files for call in self._read_places(path, step)]
        yield from self._explore(f"look-{step.name}", reads, f"What {step.name} touches: {', '.join(step.files)}.")
        yield [act(changed, [f"look-{step.name}"])]
        figures = self.figures[step.name]
        for change in step.changes:
            for _ in range(MOST_READS):
                if again := self._read_missing(change):
                    figures.read_again += [str(call.arguments["path"]) for call in again]  # type: ignore[index]
                    yield again
            figures.before_edit = figures.before_edit or len(figures.views)
            yield self._make(change)
            self._changed.append(change.path)
        if self._build is not None and step.name in COMMANDS:
            yield from self._run(self._build, step.name)
        yield [shell(f"wc -l {' '.join(step.files)}"), end(changed)]
        if self.case.compares and step.name in LOOKED_AT_AFTER:
            reads = [*self._look_up(LOOKED_AT_AFTER[step.name])]
            yield from self._explore(f"compare-{step.name}", reads, f"{step.name} is written as others are.")

    def _run(self, build: Path, step: str) -> Iterator[list[Call]]:
        """Start a step's command, and wait until it has ended: a build takes longer than a call of the shell may."""
        log, code = build.with_name(f"{step}.log"), build.with_name(f"{step}.code")
        command = COMMANDS[step].format(build=build)
        script = f"({command}) >{log} 2>&1; echo $? >{code}"
        yield [Call("shell", {"command": script, "mode": "background"})]
        wait = f"for second in $(seq {WAIT}); do [ -e {code} ] && break; sleep 1; done; tail -n 20 {log}"
        while not code.exists():
            yield [Call("shell", {"command": wait, "timeout": WAIT + 20})]

    def _explore(self, name: str, reads: list[Call], learned: str) -> Iterator[list[Call]]:
        opening = [explore(name)]
        for first in range(0, len(reads), READ_AT_ONCE):
            yield [*opening, *reads[first : first + READ_AT_ONCE]]
            opening = []
        yield [end(name, learned)]

    def _make(self, change: Change) -> list[Call]:
        if change.old:
            return [edit(change.path, [{"old_text": change.old, "new_text": change.new}])]
        folder = str(Path(change.path).parent)
        made = [] if (self._source / folder).exists() else [Call("create_directory", {"path": folder})]
        return [*made, write(change.path, change.new)]

    def _look_up(self, places: Iterable[tuple[str, str]]) -> Iterator[Call]:
        for path, pattern in places:
            yield from [search(pattern, path)] if pattern else self._read_whole(path)

    def _read_whole(self, path: str) -> list[Call]:
        count = len(self._read(path).splitlines())
        return [read_lines(path, first, 1_000) for first in range(0, count, 1_000)]

    def _read_places(self, path: str, step: Step) -> list[Call]:
        """Reads of a file: whole, or around the places that a step changes."""
        text = self._read(path)
        count = len(text.splitlines())
        if count <= (WHOLE_AT_MOST if self.case.whole else WHOLE):
            return self._read_whole(path)
        reads: list[Call] = []
        stop = 0
        for change in step.changes:
            if change.path == path:
                first, last = find_lines(text, change.old)
                first, last = max(stop, first - WINDOW), last + WINDOW
                reads += [read_lines(path, first, last - first)] if last > first else []
                stop = max(stop, last)
        return reads

    def _read_missing(self, change: Change) -> list[Call]:
        """Reads of what a change needs and the view lacks: the lines in its place, and what earlier steps wrote."""
        sight = self._sight
        if change.old and sight.lacks(change.old):
            first, last = find_lines(self._read(change.path), change.old)
            return [read_lines(change.path, max(0, first - WINDOW // 3), last - first + WINDOW)]
        needed = set(re.findall(r"[A-Za-z_]\w{5,}", "\n".join(change.added))) - sight.words
        for earlier in self._steps[: self._at]:
            # What declares it is the shortest file.
            for before in sorted(earlier.changes, key=lambda other: len(other.added)):
                if needed & set(re.findall(r"\w+", "\n".join(before.added))):
                    first, last = find_lines(self._read(before.path), before.added[0])
                    return [read_lines(before.path, max(0, first - WINDOW // 3), len(before.added) + WINDOW)]
        return []

    def _read(self, path: str) -> str:
        file = self._source / path
        return file.read_text(encoding="utf-8") if file.exists() else ""

    def _summarise(self, _: Request) -> Reply:
        """The user's words, the newest first, as many as fit; then what was done, and by choice in which files."""
        said = [step.prompt for step in self._steps[: self._at + 1]]
        room = 4 * SUMMARY_TOKENS
        words: list[str] = []
        for prompt in reversed(said):
            room -= len(prompt)
            words = [prompt, *words] if room > 0 else words
        done = [f"The step {step.name} is done." for step in self._steps[: self._at]]
        files = list(dict.fromkeys(self._changed)) if self.case.names_files else []
        return Reply("\n".join(["The user asked for:", *words, *done, *(f"Changed: {path}" for path in files)]))


def read_lines(path: str, first: int, count: int) -> Call:
    return Call("read_file", {"path": path, "offset": first, "limit": count})


def find_lines(text: str, part: str) -> tuple[int, int]:
    """The lines that a part of a text is on, from 0, and the one after them."""
    at = max(text.find(part), 0)
    first = text.count("\n", 0, at)
    return first, first + part.count("\n") + 1


def play(study: str, source: Path, case: Case, build: Path | None = None) -> Player:
    """Do a study in one session, and check that the sources are those of the reference solutions in the end.

    `build`: see `Player`; what it runs must succeed.
    """
    steps = [read_step(study, name) for name in STEPS[study]]
    player = Player(source, steps, case, build)
    if there := [
        change.path for step in steps for change in step.changes if not change.old and (source / change.path).exists()
    ]:
        raise SystemExit(f"{source} is not the source as it was: there is {there[0]}")
    with restoring(source, steps), tempfile.TemporaryDirectory() as folder, ScriptedServer(player, keep=1) as server:
        context = ContextSettings(strategy=case.strategy, recall=True)
        model = anthropic_model(server.url, MODEL.partition(":")[2], 0)
        settings = AgentSettings(model=model, budget=case.budget, context=context, yolo=True)
        session = AgentSession.create(SessionConfig(source, settings, SessionStore(Path(folder))))
        try:
            for number, step in enumerate(steps):
                player.begin(number)
                turn = asyncio.run(session.run(step.prompt))
                if turn.outcome is not Outcome.DONE or server.refusals:
                    raise SystemExit(f"{study}, {step.name}: {turn.error or turn.outcome} {server.refusals}")
                if build is not None and step.name in COMMANDS:
                    check_command(build, step.name)
        finally:
            session.close()
        for step in steps:
            for change in step.changes:
                text = (source / change.path).read_text(encoding="utf-8")
                if not all(line in text for line in change.added):
                    raise SystemExit(f"{study}, {step.name}: {change.path} is not as in the reference solution")
    return player


def check_command(build: Path, step: str) -> None:
    """End the program if what the model ran in a step failed."""
    if build.with_name(f"{step}.code").read_text(encoding="utf-8").strip() != "0":
        raise SystemExit(f"linux, {step}: {build.with_name(f'{step}.log').read_text(encoding='utf-8')[-3000:]}")


def tell_of_kernels(source: Path) -> None:
    """Print the same with a kernel that is built within the session, and what the validation says of it."""
    if not (PLACE.exists() and PLACE.samefile(source)):
        raise SystemExit(f"{source} must be {PLACE}, or a link there must lead to it: the validation names it")
    code = read_step("linux", "syscall").lines

    def rows() -> Iterator[list[object]]:
        for strategy in ("cwl", "compact"):
            free = play("linux", source, Case(strategy, FREE))
            for budget in (FREE, play_between(source, free).case.budget):
                yield build_kernel(source, replace(free.case, budget=budget), code)

    print_table([*name_columns(code), "minutes", "kernel", "validation"], rows(), words=2)


def build_kernel(source: Path, case: Case, code: set[str]) -> list[object]:
    with tempfile.TemporaryDirectory() as folder:
        build = Path(folder) / "build"
        build.mkdir()
        begun = time.monotonic()
        row = linux_row(play("linux", source, case, build), code)
        minutes = (time.monotonic() - begun) / 60
        said = [(build.with_name(f"{step}.log").read_text(encoding="utf-8")).splitlines() for step in COMMANDS]
        release, validation = (lines[-1] for lines in said)
    return [*row, f"{minutes:.0f}", release, validation]


def tell_of_linux(source: Path) -> None:
    """Print what of the system call is in view when the step `proc` begins."""
    code = read_step("linux", "syscall").lines
    ways = [("cwl", False), ("paper", False), ("compact", False), ("compact", True)]

    def rows() -> Iterator[list[object]]:
        for compares in (False, True):
            for strategy, names_files in ways:
                free = play("linux", source, Case(strategy, FREE, names_files, compares))
                yield linux_row(free, code)
                yield linux_row(play_between(source, free), code)

    print_table(name_columns(code), rows(), words=2)


def name_columns(code: set[str]) -> list[str]:
    """The columns of `linux_row`."""
    names = [f"{group} ({len(names)})" for group, names in NAMES.items()]
    return ["", "compares", "budget", "view", *names, f"lines of code ({len(code)})", "answers", "read again"]


def play_between(source: Path, free: Player) -> Player:
    """Play Linux again with a budget under which the first pass runs as the step `proc` begins.

    `free`: one in which none ran until then.
    """
    last, first = free.figures["syscall"].views[-1], free.figures["proc"].views[0]
    for budget in range(last + 20, first, 10):
        player = play("linux", source, replace(free.case, budget=budget))
        before, after = player.figures["syscall"].views, player.figures["proc"].views
        # The guidance names the budget, so that views differ by some tokens without a pass.
        if before == sorted(before) and after[0] < first - 50:
            return player
    raise SystemExit(f"{free.case.name}: no budget lets the first pass run as proc begins")


def linux_row(player: Player, code: set[str]) -> list[object]:
    figures, case = player.figures["proc"], player.case
    assert figures.sight is not None
    text = figures.sight.text
    counts = [len([*filter(text.__contains__, names)]) for names in NAMES.values()]
    kept = [*counts, len(code & figures.sight.lines)]
    read = ", ".join(figures.read_again) or "nothing"
    compares = "yes" if case.compares else "no"
    return [case.name, compares, f"{case.budget:,}", f"{figures.views[0]:,}", *kept, len(figures.views), read]


def tell_of_costs(sources: Mapping[str, Path]) -> None:
    """Print what each study costs under some ways to keep a budget, by the price lists of two providers."""
    columns = ["study", "reads", "", "budget", "answers", "largest view", "input tokens", *PRICES]

    def rows() -> Iterator[list[object]]:
        for study, source in sources.items():
            for whole in (False, True):
                free = play(study, source, Case("none", UNLIMITED, whole=whole))
                yield cost_row(study, free)
                size = free.witnesses[0].tally.peak_view
                for budget in (FREE, int(size * SHARE)):
                    for strategy in ("cwl", "compact") if budget < size else ():
                        yield cost_row(study, play(study, source, Case(strategy, budget, whole=whole)))

    print_table(columns, rows(), words=3)


def cost_row(study: str, player: Player) -> list[object]:
    case, tally = player.case, player.witnesses[0].tally
    costs = [f"${witness.tally.cost.total:.2f}" for witness in player.witnesses]
    reads = "whole files" if case.whole else "places"
    sizes = [f"{tally.peak_view:,}", f"{tally.input_tokens:,}"]
    return [study, reads, case.name, f"{case.budget:,}", tally.model_calls, *sizes, *costs]


def main() -> None:
    command = parser(__doc__)
    command.add_argument("table", choices=["linux", "kernel", "costs"])
    command.add_argument("sources", nargs="+", help="STUDY=FOLDER, or the folder alone for linux and kernel")
    arguments = command.parse_args()
    pairs = [word.rpartition("=") for word in arguments.sources]
    sources = {study or "linux": Path(folder).resolve() for study, _, folder in pairs}
    if arguments.table == "linux":
        tell_of_linux(sources["linux"])
    elif arguments.table == "kernel":
        tell_of_kernels(sources["linux"])
    else:
        tell_of_costs(sources)


if __name__ == "__main__":
    main()
