"""A provider's prefix cache, simulated: how many tokens a request reads from it, writes to it, and pays in full."""

from wane.caches import GENERIC, CacheRules, drops_reasoning, rules_for
from wane.lab.cache.prefix import PrefixCache

__all__ = ["GENERIC", "CacheRules", "PrefixCache", "drops_reasoning", "rules_for"]
