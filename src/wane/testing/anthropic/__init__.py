"""Anthropic's protocol: what it says (`messages`) and what it refuses (`rules`)."""

from wane.testing.anthropic.messages import UNSCRIPTED, Anthropic

__all__ = ["UNSCRIPTED", "Anthropic"]
