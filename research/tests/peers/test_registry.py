"""The strategies of other libraries by name, beside Wane's own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from research.tests.cli.test_commands import WITHOUT_RESEARCH

from tests.cli.conftest import Run
from tests.cli.test_main import WITHOUT
from wane.core.errors import ConfigError
from wane.installing import installation
from wane.lab.replaying.compare import parse_strategies
from wane.strategies.registry import STRATEGY_NAMES, describe, get_strategy, peer_names, usable_peers

LIBRARIES = ("langchain", "langchain_core", "agents", "pydantic_ai_harness", "pydantic_ai", "strands", "ctxkernel")


@pytest.mark.parametrize("name", peer_names())
def test_each_is_described_in_a_line(name: str) -> None:
    if name not in usable_peers():
        pytest.skip("its library is not installed")
    assert 10 < len(describe(name)) < 90
    assert "\n" not in describe(name)


def test_an_unknown_name_is_told_with_those_that_are_known() -> None:
    with pytest.raises(ConfigError, match=r"'cut' is unknown; known: none, .*cwl, ctxkernel, .*langchain-trim, "):
        get_strategy("cut")


@pytest.mark.full
@pytest.mark.parametrize("name", peer_names())
def test_one_that_is_not_installed_says_how_to_get_it(name: str) -> None:
    code = f"""
import sys
sys.modules.update(dict.fromkeys({LIBRARIES!r}))
from wane.core.errors import MissingExtensionError
from wane.strategies.registry import get_strategy
try:
    get_strategy({name!r})
except MissingExtensionError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"the strategy {name!r} needs ")
    line = installation().package_line("wane-research[peers]")
    assert done.stdout.strip().endswith(f", which is not installed. Install it with: {line}")


def test_they_are_added_to_a_replay_when_they_are_asked_for() -> None:
    for module in ("langchain", "langchain_core", "agents", "pydantic_ai_harness"):
        pytest.importorskip(module, reason="needs the extra peers")
    assert parse_strategies("peers") == usable_peers()
    assert parse_strategies("all,peers") == (*STRATEGY_NAMES, *usable_peers())
    assert parse_strategies("langchain-edit,cwl") == ("cwl", "langchain-edit")


@pytest.mark.full
def test_a_replay_without_them_says_how_to_install_them(spawn: Run, chat: Path) -> None:
    args = ("replay", chat, "--strategy", "peers")
    runs = spawn(",".join(LIBRARIES), *args, code=WITHOUT), spawn(*args, code=WITHOUT_RESEARCH)
    for done in runs:
        assert (done.code, done.out) == (1, "")
        assert installation().package_line("wane-research[peers]") in done.err


def test_without_research_an_unknown_name_says_where_there_are_more(spawn: Run, chat: Path) -> None:
    done = spawn("replay", chat, "--strategy", "langchain-trim", code=WITHOUT_RESEARCH)
    assert (done.code, done.out) == (2, "")
    assert done.err.endswith("cwl, and with wane-research those of other libraries\n")
