"""An agent to be killed: forked from a process that has imported everything, at each line on standard input.

A line holds the scripted server's URL, the project and the directory of its sessions. It works on the project's
last session, for ever, and prints `at work` when it begins and `done ANSWER` when a task is done and on record.
"""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
from dataclasses import replace
from pathlib import Path

from wane.agent.config import AgentSettings
from wane.agent.session import AgentSession, SessionConfig
from wane.core.errors import SessionNotFoundError
from wane.journal import SessionStore
from wane.testing.connected_models import openai_chat_model

BUDGET = 6_000


def config(url: str, project: Path, sessions: Path) -> SessionConfig:
    settings = AgentSettings(model=openai_chat_model(url, "gpt-4.1", 0), budget=BUDGET, yolo=True)
    return SessionConfig(project, settings, SessionStore(sessions))


async def work(settings: SessionConfig) -> None:
    assert settings.store is not None
    try:
        session = AgentSession.resume(settings.store.latest(settings.cwd).path, settings)
    except SessionNotFoundError:
        session = AgentSession.create(settings)
    print("at work", flush=True)
    number = sum(1 for message in session.history if message.kind == "request")
    while True:
        result = await session.run(f"task {number}")
        assert result.outcome == "done", result
        print(f"done {result.output}", flush=True)
        number += 1


def main() -> None:
    # Whatever is imported or made on first use is done once, and not in each child.
    AgentSession.create(replace(config("http://127.0.0.1:9", Path.cwd(), Path.cwd()), store=None)).close()
    print("ready", flush=True)
    for line in sys.stdin:
        url, project, sessions = line.rstrip("\n").split("\t")
        child = os.fork()
        if child == 0:
            try:
                print(f"pid {os.getpid()}", flush=True)
                asyncio.run(work(config(url, Path(project), Path(sessions))))
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        print(f"ended {os.waitstatus_to_exitcode(status)}", flush=True)


if __name__ == "__main__":
    main()
