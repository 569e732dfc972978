"""The agent's side of a closed loop, in a process of its own, so that it can be killed and its memory measured.

It reads orders as lines of JSON from standard input and answers each with one line on standard output.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from wane.agent.config import AgentSettings
from wane.agent.session import AgentSession, SessionConfig
from wane.conversation import ContextSettings
from wane.journal import SessionStore
from wane.scripted.repository import python_for_commands
from wane.testing.connected_models import anthropic_model


class Worker:
    """One process of the agent.

    `order`: where it works (`cwd`, `sessions`), the model's `url` and name, `strategy`, `budget` and whether there are
    `tasks` (R17).
    """

    def __init__(self, order: dict[str, Any]) -> None:
        self.cwd = Path(order["cwd"])
        self.store = SessionStore(Path(order["sessions"]))
        model = anthropic_model(order["url"], order["model"], 0)
        context = ContextSettings(strategy=order["strategy"], tasks=order["tasks"], recall=True)
        self.settings = AgentSettings(model=model, budget=order["budget"], context=context, yolo=True)
        self.session: AgentSession | None = None

    def open(self, journal: str | None) -> dict[str, Any]:
        started = time.perf_counter()
        self.close()
        # A resumed session takes its settings from its journal; these supply the rest.
        config = SessionConfig(self.cwd, self.settings, self.store)
        self.session = AgentSession.resume(Path(journal), config) if journal else AgentSession.create(config)
        assert self.session.journal is not None
        path = str(self.session.journal.path)
        return {"journal": path, "seconds": time.perf_counter() - started, **self._state(self.session)}

    def run(self, prompt: str) -> dict[str, Any]:
        assert self.session is not None, "a session is open"
        turn = asyncio.run(self.session.run(prompt))
        return {
            "outcome": turn.outcome.value,
            "output": turn.output,
            "error": turn.error,
            **self._state(self.session),
        }

    def close(self) -> dict[str, Any]:
        if self.session is not None:
            self.session.close()
            self.session = None
        return {}

    def _state(self, session: AgentSession) -> dict[str, Any]:
        visible = list(session.window.visible)
        digest = hashlib.sha256(json.dumps(visible).encode()).hexdigest()[:16]
        return {
            "view": f"{len(visible)}:{session.tokens}:{digest}",
            "items": session.window.item_count,
            "memory": peak_memory(),
        }


def peak_memory() -> int | None:
    """Return the most memory that this process has held, in bytes; None where the system does not tell."""
    try:
        # For a process that has just started, `getrusage` reports the parent's peak if that was larger.
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        pass
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def main() -> None:
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nothing else may write among the answers
    worker: Worker | None = None
    with python_for_commands():
        for line in sys.stdin:
            order = json.loads(line)
            if worker is None:
                worker = Worker(order)
                answer: dict[str, Any] = {}
            elif "run" in order:
                answer = worker.run(order["run"])
            elif "open" in order:
                answer = worker.open(order["open"])
            else:
                answer = worker.close()
            out.write(json.dumps(answer) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
