#!/usr/bin/env bash
# Cline 3.0.65: a printed run (`--json`) leaves a daemon behind, which listens on a port, and outlives the run.
#
# Most would expect: the printed mode runs the task, prints the events, and ends with all that it started; the background hub is what the
# option `--zen` and the command `cline hub` are for.
# What happens: the run starts `cline --cline-hub-daemon` for the working directory, in a session of its own, so that neither the end of the
# run nor the end of the terminal or of its process group ends it. A job that waits for its children's pipes or cleans up by process group
# keeps it; a container that starts many runs collects one for each directory.
#
# Seen:
#   exit code 0
#   5 seconds later: --cline-hub-daemon, parent 1, a session of its own, listening
set -euo pipefail
folder=$(mktemp -d)
server=""
daemon=""
trap '[ -z "$server" ] || kill $server; [ -z "$daemon" ] || kill $daemon; rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit --prefix "$folder/npm" node@22.23.3 cline@3.0.65 >/dev/null
mkdir -p home work
cat > server.py <<'PYTHON'
import json
from http.server import BaseHTTPRequestHandler, HTTPServer


class Server(BaseHTTPRequestHandler):
    """Answers every chat completion with one word."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        choice = {"index": 0, "delta": {"role": "assistant", "content": "Hello."}, "finish_reason": None}
        end = {"index": 0, "delta": {}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105}
        chunks = [{**head, "choices": [choice]}, {**head, "choices": [end]}, {**head, "choices": [], "usage": usage}]
        data = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks).encode() + b"data: [DONE]\n\n"
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Server)
with open("url", "w") as file:
    file.write(f"http://127.0.0.1:{server.server_port}")
server.serve_forever()
PYTHON
python3 server.py & server=$!
while [ ! -s url ]; do sleep 0.1; done
cline() {
  (cd work && env -i PATH="$folder/npm/node_modules/node/bin:$PATH" HOME="$folder/home" "$folder/npm/node_modules/.bin/cline" "$@" \
    </dev/null >/dev/null 2>&1)
}
cline auth openai-compatible --baseurl "$(cat url)/v1" --apikey sk-dummy --modelid m
ps -eo args | { ! grep -F -e "--cline-hub-daemon --cwd $folder/work" | grep -v grep; }
cline --json "Say hello."
echo "exit code $?" | tee seen
sleep 5
daemon=$(ps -eo pid,args | awk -v cwd="$folder/work" '/--cline-hub-daemon/ && index($0, "--cwd " cwd) && !/awk/ { print $1 }' | head -1)
read -r parent session < <(ps -o ppid=,sid= -p "$daemon")
python3 - "$daemon" "$parent" "$session" <<'PYTHON' | tee -a seen
import os
import sys

daemon, parent, session = map(int, sys.argv[1:])
sockets = {os.readlink(f"/proc/{daemon}/fd/{name}") for name in os.listdir(f"/proc/{daemon}/fd")}
listening = set()
for table in ("tcp", "tcp6"):
    with open(f"/proc/net/{table}") as file:
        rows = [line.split() for line in file.readlines()[1:]]
    listening |= {f"socket:[{row[9]}]" for row in rows if row[3] == "0A"}
own = "a session of its own" if session == daemon else f"session {session}"
print(f"5 seconds later: --cline-hub-daemon, parent {parent}, {own}, {'listening' if sockets & listening else 'not listening'}")
PYTHON
diff seen - <<'SEEN'
exit code 0
5 seconds later: --cline-hub-daemon, parent 1, a session of its own, listening
SEEN
