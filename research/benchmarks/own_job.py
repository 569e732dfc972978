"""Replays of strategies that only the programs in this folder have."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace

from wane.lab.replaying.engine import Job
from wane.lab.replaying.replay import Replay, Subject, replay
from wane.strategies.base import Settings, Strategy


@dataclass(frozen=True, slots=True)
class OwnJob(Job):
    """A replay of a strategy that has no name in the registry."""

    @abstractmethod
    def start(self, subject: Subject, settings: Settings) -> Strategy:
        """Return the strategy for a session, whose overhead the settings have."""

    def run(self, subject: Subject) -> Replay:
        settings = replace(self.settings, overhead=subject.material.overhead)
        return replay(subject, self.start(subject, settings), settings.budget, self.pricing, trace=self.trace)
