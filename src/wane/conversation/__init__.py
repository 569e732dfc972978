"""Conversations: messages in, requests out, in any format and under any strategy. Sans I/O."""

from wane.conversation.adapter import Adapter, Prepared
from wane.conversation.alignment import Aligner, Alignment, Change
from wane.conversation.context import ContextArguments, ContextSettings
from wane.conversation.conversation import Conversation, Host, Log
from wane.conversation.conversations import Conversations, States
from wane.conversation.request import Request, Tool
from wane.conversation.tool_calls import Call, calls_of

__all__ = [
    "Adapter",
    "Aligner",
    "Alignment",
    "Call",
    "Change",
    "ContextArguments",
    "ContextSettings",
    "Conversation",
    "Conversations",
    "Host",
    "Log",
    "Prepared",
    "Request",
    "States",
    "Tool",
    "calls_of",
]
