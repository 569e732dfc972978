"""Conversations at the level of messages: messages in, requests out."""
