"""Runs the benchmark cell by cell, and keeps each finished cell, so that an interrupted run continues."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final, TypeAlias

import wane
import wane_research
from wane.caches import rules_for
from wane.core.errors import FormatError, WaneError
from wane.lab.processes import run_in_processes
from wane.lab.readers import gather
from wane.lab.replaying.strategy_replay import Pricing, replay
from wane.lab.replaying.studying import Studied, study
from wane.prices import Period, Prices, Rates
from wane.strategies.registry import get_strategy, strategy_class, traits
from wane.strategies.strategy import StrategySettings
from wane_research.bench.figures import Evidence, Figures, Watched
from wane_research.bench.sources import Source

BASELINE: Final = "none"

PRICED: Final = "2026-11-25"  # when the price list was copied
_MODEL: Final = "claude-sonnet-5-5"
PRICES: Final = Prices(
    name=f"anthropic:{_MODEL}",
    provider="anthropic",
    model=_MODEL,
    periods=(Period((Rates(above=0, input=2e-6, read=0.1e-6, write=2.5e-6, write_hour=4e-6, output=10e-6),)),),
)
"""Prices of all model calls, whichever model was recorded. They stay when Wane's price list changes."""

_PARTS: Final = ("core", "formats", "inference", "lab", "strategies", "tools", "prices.py", "identifiers.py")
_OWN: Final = ("bench/figures.py", "bench/running.py", "peers")


Key: TypeAlias = tuple[str, str, int, str]


@dataclass(frozen=True, slots=True)
class Cell:
    """A strategy at a budget over one recording."""

    recording: int  # the recording's number
    sha256: str  # its digest
    strategy: str  # the strategy's name
    budget: int  # tokens that a view may hold; 0 for BASELINE, which has no budget
    used: str = ""  # the libraries of a peer, with their versions; empty for Wane's own strategies

    @property
    def key(self) -> Key:
        """Identifies the cell in any run; unlike its number, the digest does not depend on the other recordings."""
        return self.sha256, self.strategy, self.budget, self.used


@dataclass(frozen=True, slots=True)
class Subject:
    """A recording prepared for all of its cells."""

    studied: Studied
    evidence: Evidence

    def run(self, cell: Cell) -> Figures:
        material = self.studied.subject.material
        budget = cell.budget or StrategySettings().budget
        settings = replace(self.studied.under(StrategySettings(budget=budget)), overhead=material.overhead)
        watched = Watched(get_strategy(cell.strategy, settings), material, self.evidence)
        figures = Figures.of(replay(self.studied.subject, watched, budget, self.studied.pricing), watched)
        # Without a budget, none can be exceeded.
        return figures if traits(cell.strategy).bounded else replace(figures, over=0)


def prepare(sources: Sequence[Source], folder: Path, progress: Callable[[int, int], None]) -> list[Subject]:
    """Read and index the recordings, in the order of the sources.

    Tokens are those that the providers reported, shared out by characters; see research/docs/counting.md.
    """
    pricing = Pricing(PRICES, rules_for(PRICES.provider, PRICES.model))
    subjects = []
    recordings = [recording for source in sources for recording in source.recordings]
    for number, recording in enumerate(recordings):
        gathered = gather([folder / recording.name])
        if len(gathered.recordings) != 1:
            raise FormatError(f"{recording.name} holds {len(gathered.recordings)} sessions with a model call; need one")
        [studied] = study(gathered.recordings, pricing)
        subjects.append(Subject(studied, Evidence(studied.recording.session)))
        progress(number + 1, len(recordings))
    return subjects


def cells_of(sources: Sequence[Source], strategies: Sequence[str], budgets: Sequence[int]) -> list[Cell]:
    digests = [recording.sha256 for source in sources for recording in source.recordings]
    pairs = [(BASELINE, 0)]
    for budget in budgets:
        pairs += [(name, budget) for name in strategies if name != BASELINE]
    cells: list[Cell] = []
    for name, budget in pairs:
        used = ", ".join(f"{library} {version(library)}" for library in libraries(name))
        cells += [Cell(number, digest, name, budget, used) for number, digest in enumerate(digests)]
    return cells


def run_cells(
    subjects: Sequence[Subject],
    cells: Sequence[Cell],
    finished: Finished,
    workers: int,
    progress: Callable[[int, int], None],
) -> dict[Cell, Figures]:
    """Run the cells that are not finished, and return the figures of all."""
    results = {cell: finished.cells[cell.key] for cell in cells if cell.key in finished.cells}
    progress(len(results), len(cells))
    # Peers take much longer, so they come last. Otherwise the longest goes first, so that none starts near the end.
    pending = sorted(
        (cell for cell in cells if cell not in results),
        key=lambda cell: (bool(cell.used), -len(subjects[cell.recording].studied.recording.session.calls)),
    )
    if not pending:
        return results
    with closing(run_in_processes(partial(_run, subjects), pending, workers)) as stream:
        for cell, figures in stream:
            finished.add(cell, figures)
            results[cell] = figures
            progress(len(results), len(cells))
    return results


def _run(subjects: Sequence[Subject], cell: Cell) -> Figures:
    return subjects[cell.recording].run(cell)


def libraries(strategy: str) -> tuple[str, ...]:
    """Return the distributions on which a strategy's view depends; none for Wane's own strategies."""
    distributions: tuple[str, ...] = getattr(strategy_class(strategy), "distributions", ())
    return distributions


def versions(strategies: Iterable[str]) -> dict[str, str]:
    """Return the versions that figures depend on: of Wane, of its code (a digest), and of the peers' libraries."""
    names = dict.fromkeys(library for name in strategies for library in libraries(name))
    return {"wane": wane.__version__, "code": code_digest(), **{name: version(name) for name in names}}


def code_digest() -> str:
    """Return a digest of the source files that the figures depend on; the same in every checkout and installation."""
    digest = hashlib.sha256()
    for package, parts in ((wane, _PARTS), (wane_research, _OWN)):
        root = Path(str(package.__file__)).parent
        for part in parts:
            paths = [root / part] if part.endswith(".py") else sorted((root / part).rglob("*.py"))
            for path in paths:
                digest.update(f"{path.relative_to(root).as_posix()}\n{path.read_text(encoding='utf-8')}\n".encode())
    return digest.hexdigest()[:16]


class Finished:
    """The finished cells in a file, which need not exist: a line of JSON each. A line that was cut off is ignored."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.cells: dict[Key, Figures] = {}
        try:
            lines = path.read_text(encoding="utf-8").split("\n")
        except FileNotFoundError:
            return
        for line in lines:
            try:
                entry = json.loads(line)
                sha256, strategy, budget, used = entry["cell"]
                self.cells[sha256, strategy, budget, used] = Figures.read_from(entry["figures"])
            except (ValueError, KeyError, TypeError, FormatError):
                continue  # the cell is measured again

    def add(self, cell: Cell, figures: Figures) -> None:
        entry = {"cell": cell.key, "figures": asdict(figures)}
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # A single write. The first line break ends a line that was cut off.
            with self._path.open("a", encoding="utf-8") as file:
                file.write(f"\n{json.dumps(entry)}\n")
        except OSError as error:
            raise WaneError(f"cannot save finished work to {self._path}: {error.strerror}") from error
        self.cells[cell.key] = figures

    def clear(self) -> None:
        self._path.unlink(missing_ok=True)
        self.cells.clear()


def finished_path(folder: Path, *, check: bool) -> Path:
    """Return the file of finished cells in a folder. Its name has the code's digest: figures of other code don't count.

    `check`: for a run that checks a result, which must not reuse the cells of the run that made it.
    """
    return folder / f"{code_digest()}{'-check' if check else ''}.jsonl"
