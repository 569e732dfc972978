"""A provider's prefix cache, simulated: how many tokens a request reads from it, writes to it, and pays in full.

`rules` holds what each provider promises, with its source; `prefix` applies it to a series of requests.
"""

from wane.lab.cache.prefix import PrefixCache
from wane.lab.cache.rules import GENERIC, CacheRules, drops_reasoning, rules_for

__all__ = ["GENERIC", "CacheRules", "PrefixCache", "drops_reasoning", "rules_for"]
