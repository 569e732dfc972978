"""Infers episodes from tool calls, without a model, for agents and sessions that mark none. Pure."""

from wane.inference.annotator import Annotator, Limits, is_annotated

__all__ = ["Annotator", "Limits", "is_annotated"]
