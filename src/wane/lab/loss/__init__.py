"""The loss of a strategy: what later work needed and the view lacked. No model judges it (research/docs/loss.md)."""

from wane.lab.loss.loss_run import CallLoss, Loss, LossTotals, Reread
from wane.lab.loss.need_index import Index

__all__ = ["CallLoss", "Index", "Loss", "LossTotals", "Reread"]
