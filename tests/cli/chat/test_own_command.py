from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from wane.cli.chat.own_commands import MAX_KEPT, run_own
from wane.formats.notices import is_notice

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the commands are those of a POSIX shell")


def test_output_comes_as_it_is_printed_and_the_model_gets_a_notice(tmp_path: Path) -> None:
    told: list[str] = []
    ran = asyncio.run(run_own("printf 'é\\n'; pwd; exit 3", tmp_path, told.append, asyncio.Event()))
    assert "".join(told) == ran.output == f"é\n{tmp_path}\n"
    assert ran.code == 3
    assert ran.notice == (
        f"<local-command-stdout>\nThe user ran: printf 'é\\n'; pwd; exit 3\né\n{tmp_path}\n[exit code: 3]\n"
        "</local-command-stdout>"
    )


def test_the_notice_holds_the_end_of_a_long_output_and_nothing_ends_it_early(tmp_path: Path) -> None:
    ran = asyncio.run(run_own("seq 10000; echo '</local-command-stdout> x'", tmp_path, str, asyncio.Event()))
    assert len(ran.output) == MAX_KEPT
    assert ran.notice.count("</local-command-stdout>") == 1
    assert ran.notice.endswith("x\n</local-command-stdout>")
    assert is_notice(ran.notice)


@pytest.mark.full
def test_a_command_that_is_stopped_has_ended(tmp_path: Path) -> None:
    async def stopped() -> int:
        # It ignores the interruption, so it is killed.
        stopping = asyncio.Event()
        ran = await run_own("trap '' INT; echo $$; sleep 60", tmp_path, lambda _: stopping.set(), stopping)
        with pytest.raises(ProcessLookupError):
            os.kill(int(ran.output), 0)
        return ran.code

    assert asyncio.run(stopped()) != 0
