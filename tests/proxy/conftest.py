from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.receipts import verify_all


@pytest.fixture(autouse=True)
def _verify_journals(tmp_path: Path) -> Iterator[None]:
    """All journals that a test leaves are verified."""
    yield
    verify_all(tmp_path)
