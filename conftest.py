"""Settings of the whole suite.

Hypothesis profiles: `quick` (the default), `ci` (of `.ci/run`) and `full` (of `make test-all`) draw the same examples
every time, so that a green suite stays green; `fuzz` looks for new ones, for long. Choose with
`pytest --hypothesis-profile=fuzz`. A test that wants more or fewer says how many times the profile's number.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import signal
import tomllib
from collections import defaultdict
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from tests.conformance import conformance_cases

# No deadlines: a slow machine is no failure. A history is a large example on purpose.
_quiet = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
_same = settings(deadline=None, derandomize=True, database=None, suppress_health_check=_quiet)

# Hypothesis also draws from the constants of whatever local modules are loaded: examples would change with the files
# that a worker has taken before, and with each constant in the sources.
providers.is_local_module_file = lambda _: False  # type: ignore[assignment]

settings.register_profile("quick", _same, max_examples=4)
settings.register_profile("ci", _same, max_examples=6)
settings.register_profile("full", _same, max_examples=50)
settings.register_profile("fuzz", max_examples=10_000, deadline=None, print_blob=True, suppress_health_check=_quiet)
settings.load_profile("quick")

# A shell that starts a job in the background has it ignore Ctrl-C, and so would all that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ASYNC_LIMIT = 180.0
"""Seconds that a test which is a coroutine may take, also where the machine is busy."""

SERVED = {"redis_server", "own_redis", "postgres_server", "browser"}
"""Fixtures that start a real server or browser."""


LONGEST = (
    "test_evaluation.py",
    "test_environment_google_adk.py",
    "test_environment_openhands.py",
    "test_environment_litellm.py",
    "test_agents.py",
    "test_provider.py",
    "test_crash.py",
    "test_play.py",
)
"""Files that take half a minute or more in `.ci/run`. They begin first, as a file is run by one process."""


SLOW_TO_LOAD = (
    "tests/integrations/adapters",
    "tests/proxy/clients",
    "research/tests/peers",
    "research/tests/evaluation/test_statistics.py",
)
"""Tests that load other people's frameworks, which takes each process seconds."""


def pytest_sessionstart(session: pytest.Session) -> None:
    """Refuse an installation from before the entry points changed: commands and strategies would be missing."""
    with suppress(PackageNotFoundError):
        installed = {(point.group, point.name, point.value) for point in distribution("wane-research").entry_points}
        declared = tomllib.loads((session.config.rootpath / "research/pyproject.toml").read_text(encoding="utf-8"))
        groups = declared["project"]["entry-points"].items()
        if installed != {(group, name, value) for group, points in groups for name, value in points.items()}:
            pytest.exit("the entry points of wane-research have changed: run `make .venv/.ready`", returncode=1)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave these out of `make test`, if they are not named."""
    paths = [config.rootpath / path for path in SLOW_TO_LOAD if not any(arg.startswith(path) for arg in config.args)]
    return True if collection_path in paths and "not full" in config.option.markexpr else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to the fuller runs what needs real servers, and some cases of tests with many."""
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if SERVED.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.full)
        elif item.get_closest_marker("quick") and not item.get_closest_marker("wide"):
            cases[item.nodeid.partition("[")[0]].append(item)
    for name, same in cases.items():
        marker = same[0].get_closest_marker("quick")
        assert marker is not None
        # Others of each test of a file, so that together they have all.
        first, wanted = crc32(name.encode()) % len(same), marker.args[0]
        quick, full = (_spread(first, count, len(same)) for count in (wanted, 2 * wanted))
        for number, item in enumerate(same):
            if number not in quick:
                item.add_marker(pytest.mark.full if number in full else pytest.mark.wide)
    items.sort(key=lambda item: item.path.name not in LONGEST)


def _spread(first: int, count: int, among: int) -> set[int]:
    """So many numbers below a number, from a first one on, as far from each other as they can be."""
    return {(first + number * among // count) % among for number in range(min(count, among))}


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine, in an event loop of its own."""
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(test).parameters}

    async def main() -> None:
        async with asyncio.timeout(ASYNC_LIMIT):
            await test(**arguments)

    asyncio.run(main())
    return True


@pytest.fixture(autouse=True)
def restored_logging(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take back what a command that ran in this process did to the loggers."""
    for logger in map(logging.getLogger, ("wane.proxy", "uvicorn.error")):
        for name in ("handlers", "level", "propagate"):
            monkeypatch.setattr(logger, name, getattr(logger, name))


def pytest_collection_finish() -> None:
    """Take what the tests have imported out of the garbage collector's rounds."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Do the same for what a file of tests has left: modules that were imported late, and caches."""
    if nextitem is not None and nextitem.path != item.path:
        gc.collect()
        gc.freeze()


@pytest.fixture
def shared_cases() -> list[dict[str, Any]]:
    """The conformance cases, for a test that goes through all of them; it is skipped where there are none."""
    found = conformance_cases()
    if found[0].marks:
        pytest.skip(found[0].marks[0].kwargs["reason"])
    return [case.values[0] for case in found]
