#!/usr/bin/env bash
# LiteLLM 1.110.2: what the same answer costs may change while a process runs, and with it prices that the program has set.
#
# Most would expect: LiteLLM's prices are read once, when it is imported, as the variable for their address and the warning "Falling back to
# local backup" say; the same answer then costs the same for as long as the process runs, and a price that the program wrote into
# `litellm.model_cost`, the public table of them, stays.
# What happens: where the address fails in a way that may pass (a 503, no connection), the import goes on with the packaged prices and a
# thread asks again, some seconds later, twice at most. If that succeeds, `litellm.model_cost` becomes another dictionary in the middle of the
# work: later answers have the newer prices, whoever did `from litellm import model_cost` holds the old table for good, and what was
# written into the table is gone, without a word. Only prices from `register_model` stay. So the sum of a run depends on when the
# network came back, and two workers may bill the same work differently.
#
# Seen (the address answers 503 twice, then with prices that are twice those of the package):
#   gpt-4o, as packaged           0.0025, later 0.005
#   gpt-4o-mini, written into it  7.0, later 0.0003
#   gpt-4.1, by register_model    9.0, later 9.0
#   the table imported by name is the one in use: True, later False
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --no-compile --disable-pip-version-check litellm==1.110.2
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import importlib.util
import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

packaged = Path(importlib.util.find_spec("litellm").origin).with_name("model_prices_and_context_window_backup.json")
prices = json.loads(packaged.read_text())
for name in ("gpt-4o", "gpt-4o-mini", "gpt-4.1"):
    prices[name]["input_cost_per_token"] *= 2
asked = []


class Prices(BaseHTTPRequestHandler):
    """Is busy twice; then it has newer prices."""

    def do_GET(self):
        busy = len(asked) < 2
        asked.append(self.path)
        data = b"busy" if busy else json.dumps(prices).encode()
        self.send_response(503 if busy else 200)
        if busy:
            self.send_header("retry-after", "30")  # twice: time enough for the import
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Prices)
threading.Thread(target=server.serve_forever, daemon=True).start()
os.environ["LITELLM_MODEL_COST_MAP_URL"] = f"http://127.0.0.1:{server.server_port}/"
os.environ.pop("LITELLM_LOCAL_MODEL_COST_MAP", None)

import litellm
from litellm import model_cost


def cost(model):
    """What an answer to 1,000 tokens costs, in dollars."""
    usage = litellm.Usage(prompt_tokens=1_000, completion_tokens=0, total_tokens=1_000)
    return round(litellm.completion_cost(litellm.ModelResponse(model=model, usage=usage)), 6)


def look():
    return {name: cost(name) for name in ("gpt-4o", "gpt-4o-mini", "gpt-4.1")}, model_cost is litellm.model_cost


litellm.model_cost["gpt-4o-mini"]["input_cost_per_token"] = 7e-3
litellm.register_model({"gpt-4.1": {"input_cost_per_token": 9e-3}})
before, same = look()
if len(asked) > 2:
    sys.exit("this machine is too slow: the import took longer than the wait for newer prices")
for _ in range(1_200):  # two minutes
    if model_cost is not litellm.model_cost:
        break
    time.sleep(0.1)
time.sleep(1)
after, still = look()
server.shutdown()
print(f"gpt-4o, as packaged           {before['gpt-4o']}, later {after['gpt-4o']}")
print(f"gpt-4o-mini, written into it  {before['gpt-4o-mini']}, later {after['gpt-4o-mini']}")
print(f"gpt-4.1, by register_model    {before['gpt-4.1']}, later {after['gpt-4.1']}")
print(f"the table imported by name is the one in use: {same}, later {still}")
assert (before["gpt-4o"], after["gpt-4o"]) == (0.0025, 0.005), "the behaviour has changed"
assert (before["gpt-4o-mini"], after["gpt-4o-mini"]) == (7.0, 0.0003), "the behaviour has changed"
assert (before["gpt-4.1"], after["gpt-4.1"]) == (9.0, 9.0), "the behaviour has changed"
assert (same, still) == (True, False), "the behaviour has changed"
PYTHON
