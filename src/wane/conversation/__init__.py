"""Conversations: messages in, requests out, in any format and under any strategy. Sans I/O."""

from wane.conversation.adapter import Adapter
from wane.conversation.alignment import Aligner, Alignment
from wane.conversation.calls import Call, calls_of
from wane.conversation.conversation import Conversation
from wane.conversation.conversations import Conversations
from wane.conversation.request import Change, Request
from wane.conversation.tools import Tool

__all__ = [
    "Adapter",
    "Aligner",
    "Alignment",
    "Call",
    "Change",
    "Conversation",
    "Conversations",
    "Request",
    "Tool",
    "calls_of",
]
