"""Replays recorded sessions under strategies, one at a time or many in parallel."""
