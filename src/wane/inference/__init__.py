"""Episodes for agents and sessions that mark none: inferred from their tool calls, without a model. Pure."""

from wane.inference.annotator import Annotator, Limits
from wane.inference.window import add_annotated, is_annotated

__all__ = ["Annotator", "Limits", "add_annotated", "is_annotated"]
