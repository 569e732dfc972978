"""Infers episodes from tool calls, without a model, for agents and sessions that mark none. Pure."""

from wane.inference.annotator import Annotator, EpisodeBounds, has_tasks, is_annotated

__all__ = ["Annotator", "EpisodeBounds", "has_tasks", "is_annotated"]
