"""Settings of the whole suite.

Hypothesis profiles: `ci` (the default) draws the same examples every time, so that a green suite
stays green; `dev` looks for new ones and keeps what it found; `fuzz` is for a long search. Choose with
`pytest --hypothesis-profile=fuzz`. A test that wants more says how many times the profile's number.
"""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

# No deadlines: a slow machine is no failure. A history is a large example on purpose.
_quiet = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]

settings.register_profile(
    "ci", max_examples=60, deadline=None, derandomize=True, database=None, suppress_health_check=_quiet
)
settings.register_profile("dev", max_examples=200, deadline=None, print_blob=True, suppress_health_check=_quiet)
settings.register_profile("fuzz", max_examples=10_000, deadline=None, print_blob=True, suppress_health_check=_quiet)
settings.load_profile("ci")

# A shell that starts a job in the background has it ignore Ctrl-C, and so would all that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
