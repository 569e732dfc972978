"""The loss of a strategy: content that later work needed and the view lacked. No model judges it (docs/lab/loss.md)."""

from wane.lab.loss.figures import CallLoss, LossTotals, Reread
from wane.lab.loss.index import Index
from wane.lab.loss.run import Loss

__all__ = ["CallLoss", "Index", "Loss", "LossTotals", "Reread"]
