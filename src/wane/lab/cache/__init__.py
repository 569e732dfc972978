"""A provider's prefix cache, simulated: how many tokens a request reads from it, writes to it, and pays in full."""

from wane.lab.cache.prefix import PrefixCache

__all__ = ["PrefixCache"]
