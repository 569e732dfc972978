"""The stores that a team's tests share with those of the stores."""

from __future__ import annotations

from tests.proxy.store.conftest import place, postgres_server, redis_server, shared

__all__ = ["place", "postgres_server", "redis_server", "shared"]
