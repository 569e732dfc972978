"""OpenAI's two protocols: Chat Completions (`chat`) and Responses (`responses`)."""

from wane.testing.openai.chat import OpenAIChat
from wane.testing.openai.responses import OpenAIResponses

__all__ = ["OpenAIChat", "OpenAIResponses"]
