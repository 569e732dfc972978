"""What a strategy lost: what later work needed and the view no longer held, told without a model (docs/lab/loss.md)."""

from wane.lab.loss.figures import CallLoss, LossTotals, Reread
from wane.lab.loss.index import Index
from wane.lab.loss.run import Loss

__all__ = ["CallLoss", "Index", "Loss", "LossTotals", "Reread"]
