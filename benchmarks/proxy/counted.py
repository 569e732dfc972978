"""`wane`, counting the calls of functions, in a process of its own.

    python benchmarks/proxy/counted.py FILE proxy --upstream …

counts from the first SIGUSR1 on, and writes the number to FILE when it ends. It differs by a few in a thousand from run
to run, however busy the machine is.
"""

from __future__ import annotations

import cProfile
import pstats
import signal
import sys
from pathlib import Path

from wane.cli.main import main

if __name__ == "__main__":
    profile = cProfile.Profile()
    signal.signal(signal.SIGUSR1, lambda *_: profile.enable())
    code = main(sys.argv[2:])
    profile.disable()
    Path(sys.argv[1]).write_text(str(pstats.Stats(profile).total_calls))  # type: ignore[attr-defined]
    sys.exit(code)
