#!/usr/bin/env bash
# Cline 3.0.65: the model that summarises a session for its compaction is shown every result of a tool as empty.
#
# Most would expect: the summary is written from what the agent has read and run; long results may be cut.
# What happens: the request (`--compaction agentic`, the default) writes the conversation out as text, with the calls and their arguments, but nothing
# behind "[Tool result]:". What the agent read leaves the history, and the summary in its place was written without it.
#
# Seen:
#   a line of the file in requests with tools: yes
#   requests for a summary: 2 ; results in the first: 2
#   a line of the file in it: no
set -euo pipefail
folder=$(mktemp -d)
server=""
clean() {
  [ -z "$server" ] || kill $server
  daemon=$(ps -eo pid,args | grep -F -e "--cline-hub-daemon --cwd $folder/work" | grep -v grep | awk '{print $1}' || true)
  [ -z "$daemon" ] || kill $daemon
  rm -rf "$folder"
}
trap clean EXIT
cd "$folder"
npm install --silent --no-fund --no-audit --prefix "$folder/npm" node@22.23.3 cline@3.0.65 >/dev/null
mkdir -p home/.cline/data/settings work
for number in $(seq 0 249); do echo "Line $number, which says something about the work at hand."; done > work/big.txt
cat > server.py <<'PYTHON'
import json
import os
from http.server import BaseHTTPRequestHandler, HTTPServer

PATH = os.path.join(os.getcwd(), "work", "big.txt")


class Server(BaseHTTPRequestHandler):
    """Has the agent read a file four times, and writes down all requests."""

    calls = 0

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with open("requests.jsonl", "a") as file:
            file.write(json.dumps(body) + "\n")
        delta = {"role": "assistant", "content": "Done."}
        if body.get("tools") and Server.calls < 4:
            Server.calls += 1
            function = {"name": "read_files", "arguments": json.dumps({"files": [{"path": PATH}]})}
            call = {"index": 0, "id": f"call_{Server.calls}", "type": "function", "function": function}
            delta = {"role": "assistant", "content": None, "tool_calls": [call]}
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        reason = "tool_calls" if "tool_calls" in delta else "stop"
        usage = {"prompt_tokens": len(json.dumps(body)) // 4, "completion_tokens": 20, "total_tokens": 0}
        chunks = [
            {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
            {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
            {**head, "choices": [], "usage": usage},
        ]
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
cat > home/.cline/data/settings/providers.json <<JSON
{"version": 1, "lastUsedProvider": "openai-compatible", "modes": {}, "providers": {"openai-compatible": {
  "settings": {"provider": "openai-compatible", "apiKey": "sk-dummy", "model": "m", "baseUrl": "$(cat url)/v1", "contextWindow": 16000},
  "updatedAt": "2026-11-29T00:00:00.000Z", "tokenSource": "manual"}}}
JSON
(cd work && env -i PATH="$folder/npm/node_modules/node/bin:$PATH" HOME="$folder/home" "$folder/npm/node_modules/.bin/cline" \
  --json "Read big.txt." </dev/null >/dev/null 2>&1)
python3 - <<'PYTHON'
import json

requests = [json.loads(line) for line in open("requests.jsonl")]
summaries = [each for each in requests if not each.get("tools") and "Summarize this session" in json.dumps(each)]
shown = any("Line 249, which" in json.dumps(each) for each in requests if each.get("tools"))
print("a line of the file in requests with tools:", "yes" if shown else "no")
text = json.dumps(summaries[0]["messages"][-1])
print("requests for a summary:", len(summaries), "; results in the first:", text.count("[Tool result]"))
missing = "Line 249, which" not in text and "Line 0, which" not in text
print("a line of the file in it:", "no" if missing else "yes")
raise SystemExit(0 if shown and missing and "[Tool result]" in text else 1)
PYTHON
