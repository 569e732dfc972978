#!/usr/bin/env bash
# Copilot CLI 1.0.102: an extension in ~/.copilot/extensions is not loaded, and nothing says so, unless experimental features are on.
#
# Most would expect: what the documentation that comes with the client says (copilot-sdk/docs/extensions.md): "The CLI scans .github/extensions/
# (project) and the user's copilot config extensions directory for subdirectories containing extension.mjs", and each is started. The word
# "experimental" does not occur there.
# What happens: without --experimental (or /experimental on), the folder is not read. No line on the terminal names the extension that was
# left out, its slash commands are unknown, and /env says "No extensions loaded".
#
# Seen:
#   plain: the extension was not started; output that names it: 0 lines
#   --experimental: the extension was started
#   "experimental" in extensions.md: 0 times
set -euo pipefail
folder=$(mktemp -d)
server=""
trap '[ -z "$server" ] || kill $server; rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit --prefix "$folder/npm" node@22.23.3 @github/copilot@1.0.102 >/dev/null
mkdir -p home/.copilot/extensions/marker work
cat > home/.copilot/extensions/marker/extension.mjs <<'JAVASCRIPT'
import { writeFileSync } from "node:fs";
import { joinSession } from "@github/copilot-sdk/extension";

writeFileSync(`${process.env.HOME}/started`, "");
await joinSession({ commands: [{ name: "marker", description: "Says hello", handler: async () => {} }] });
JAVASCRIPT
cat > server.py <<'PYTHON'
import json
from http.server import BaseHTTPRequestHandler, HTTPServer

CHUNK = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
SAID = {**CHUNK, "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Done."}, "finish_reason": None}]}
ENDED = {**CHUNK, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
USAGE = {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for event in (SAID, ENDED, {**CHUNK, "choices": [], "usage": USAGE}):
            self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *args):
        pass


httpd = HTTPServer(("127.0.0.1", 0), Handler)
open("port", "w").write(str(httpd.server_port))
httpd.serve_forever()
PYTHON
python3 server.py &
server=$!
while [ ! -s port ]; do sleep 0.1; done

ask() {
  (cd work && env -i PATH="$folder/npm/node_modules/.bin:$PATH" HOME="$folder/home" COPILOT_OFFLINE=true COPILOT_AUTO_UPDATE=false \
    COPILOT_PROVIDER_TYPE=openai COPILOT_PROVIDER_BASE_URL="http://127.0.0.1:$(cat ../port)/v1" COPILOT_PROVIDER_API_KEY=k \
    COPILOT_PROVIDER_WIRE_API=completions COPILOT_MODEL=gpt-4.1 copilot "$@" --allow-all-tools -p "Say hello." < /dev/null 2>&1)
}

ask > plain
[ ! -e home/started ] && plain="was not started" || plain="was started"
named=$(grep -c -i -E "marker|extension" plain || true)
echo "plain: the extension $plain; output that names it: $named lines"
ask --experimental > experimental
[ -e home/started ] && experimental="was started" || experimental="was not started"
echo "--experimental: the extension $experimental"
page=$(find home -path "*copilot-sdk/docs/extensions.md" | head -1)
times=$(grep -c -i experimental "$page" || true)
echo "\"experimental\" in extensions.md: $times times"
[ "$plain" = "was not started" ] && [ "$named" = 0 ] && [ "$experimental" = "was started" ] && [ "$times" = 0 ]
