#!/usr/bin/env bash
# Gemini CLI 0.61.0 in an editor (ACP): a session that is loaded in the minute in which it began.
#
# Most would expect: `session/load` brings a session back whenever the editor asks, such as after a restart; if it cannot, the session's file
# stays as it was.
# What happens: in the same minute of the clock, the load is refused with "No previous sessions found for this project", and the session is
# lost: in the next minute it is refused as well, and no file has its words any more. The new process begins a file of its own for the
# session, whose name is made of the minute and the id; in the same minute that is the file of the session itself, to which it adds a
# record that its only message is the program's own on folder and date. The next start deletes the file. One minute later all is well.
# A session that is loaded twice within a minute is refused the second time in the same way.
#
# Seen:
#   loaded a minute later: True, its words in the next request: True
#   loaded in the same minute: False, and one minute later: False, files with its words: 0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund @google/gemini-cli@0.61.0 >/dev/null 2>&1
python3 - <<'PYTHON'
import json
import os
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

WORD = "The word is tree."
sent = []


class Server(BaseHTTPRequestHandler):
    """Agrees to all that it is asked."""

    def do_POST(self):
        sent.append(self.rfile.read(int(self.headers["content-length"])).decode())
        candidate = {"content": {"role": "model", "parts": [{"text": "Yes."}]}, "finishReason": "STOP", "index": 0}
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        data = json.dumps({"candidates": [candidate], "usageMetadata": usage})
        streams = "stream" in self.path
        data = (f"data: {data}\r\n\r\n" if streams else data).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if streams else "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()


class Person:
    """Somebody with a home and an editor, which starts the program anew for each thing that is done."""

    def __init__(self, name):
        self.home, self.work = Path(name, "home").resolve(), Path(name, "work").resolve()
        (self.home / ".gemini").mkdir(parents=True)
        self.work.mkdir()
        settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": False}}
        (self.home / ".gemini/settings.json").write_text(json.dumps({**settings, "general": {"enableAutoUpdate": False}}))

    def edit(self, session, text):
        """Open a session, or load it, and say something; its id, or nothing if it could not be loaded."""
        address = f"http://127.0.0.1:{server.server_port}"
        own = {"HOME": str(self.home), "GEMINI_API_KEY": "k", "GOOGLE_GEMINI_BASE_URL": address}
        command = ["node_modules/.bin/gemini", "--acp", "--yolo", "--model", "gemini-3.1-pro-preview"]
        command[0] = str(Path(command[0]).resolve())
        environ = {"PATH": os.environ["PATH"], "GEMINI_CLI_TRUST_WORKSPACE": "true", **own}
        pipe = subprocess.PIPE
        agent = subprocess.Popen(command, cwd=self.work, env=environ, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)

        def ask(method, **params):
            agent.stdin.write(json.dumps({"jsonrpc": "2.0", "id": method, "method": method, "params": params}) + "\n")
            agent.stdin.flush()
            for line in agent.stdout:
                message = json.loads(line) if line.startswith("{") else {}
                if message.get("id") == method:
                    return message
            raise AssertionError(f"no answer to {method}")

        try:
            ask("initialize", protocolVersion=1, clientCapabilities={})
            ask("authenticate", methodId="gemini-api-key")
            where = {"cwd": str(self.work), "mcpServers": []}
            if session is None:
                session = ask("session/new", **where)["result"]["sessionId"]
            elif "error" in (answer := ask("session/load", **where, sessionId=session)):
                assert "No previous sessions found" in json.dumps(answer), answer
                return None
            ask("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])
            return session
        finally:
            agent.stdin.close()
            try:
                agent.wait(3)
            except subprocess.TimeoutExpired:  # it does not end with its editor
                agent.terminate()
                agent.wait(20)

    def files(self):
        return sum(WORD in path.read_text() for path in (self.home / ".gemini/tmp").rglob("session-*"))


def wait_for_the_next_minute():
    time.sleep(60 - time.time() % 60 + 1)


early, late = Person("early"), Person("late")
later = late.edit(None, WORD)
wait_for_the_next_minute()
minute = time.time() // 60
session = early.edit(None, WORD)
assert early.files() == 1
again = early.edit(session, "Go on.")
if time.time() // 60 != minute:
    sys.exit("this machine is too slow: both did not happen within one minute")
del sent[:]
loaded = late.edit(later, "Go on.") is not None
known = WORD in "".join(sent)
wait_for_the_next_minute()
once_more = early.edit(session, "Go on.")
server.shutdown()
print(f"loaded a minute later: {loaded}, its words in the next request: {known}")
print(f"loaded in the same minute: {again is not None}, and one minute later: {once_more is not None}, files with its words: {early.files()}")
assert loaded and known, "the behaviour has changed"
assert (again, once_more, early.files()) == (None, None, 0), "the behaviour has changed"
PYTHON
