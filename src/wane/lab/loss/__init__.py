"""The loss of a strategy: what later work needed and the view lacked. No model judges it (research/docs/loss.md)."""

from wane.lab.loss.index import Index
from wane.lab.loss.run import CallLoss, Loss, LossTotals, Reread

__all__ = ["CallLoss", "Index", "Loss", "LossTotals", "Reread"]
