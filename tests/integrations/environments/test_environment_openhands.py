"""OpenHands, in an environment of its own."""

from __future__ import annotations

import pytest

from tests.integrations.environments.environment import FRAMEWORKS, check_contract, interpreter

EXTRA = "dev-openhands"


@pytest.fixture(scope="module")
def python() -> str:
    return interpreter(EXTRA)


@pytest.mark.full
@pytest.mark.parametrize("module", FRAMEWORKS[EXTRA])
def test_its_contract_holds_there(module: str, python: str) -> None:
    check_contract(module, EXTRA, python)
