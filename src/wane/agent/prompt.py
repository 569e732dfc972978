"""The system prompt: short, because every request carries it.

`python -m wane.agent.measure` tells what it costs, with and without the tools' schemas; the figures
stand in `docs/agent.md`. What the model reads about episodes is `wane.core.guidance`, which the
`ContextLifecycle` capability adds.
"""

from __future__ import annotations

from typing import Final

SYSTEM_PROMPT: Final = """\
You are a coding agent. You work in the user's project through tools, one session for any number of tasks.

How to work
- Understand before you change: read the code that a change touches; follow the project's conventions and instructions.
- Search before you read: `{grep}` for text, `{list_files}` for names; both respect .gitignore. Then read only \
the lines you need, with `offset` and `limit`. Output is cut when it is long: narrow the search instead of repeating it.
- Make the smallest change that does the whole task. Prefer `edit_file` to `write_file` for a file that exists.
- Verify: run the tests or the program that show it works, and say what you ran. If you could not verify, say so.
- When a tool fails, read its message and change the call. Do not repeat a call that was refused.
- Paths are relative to the project. Ask only when the task cannot be understood; otherwise decide, and say what.
- Never print secrets. Do not commit, push or delete what you were not asked to.

Answer in Markdown: what you did, what you found, what is left. Be brief."""
"""The agent's own part, with the names of the search tools to be filled in."""

MAX_REPO_CONTEXT: Final = 24_000
"""Characters of a project's instruction files that go into the prompt."""


def system_prompt(*, grep: str = "grep", list_files: str = "list_files", repo_context: str | None = None) -> str:
    """Return the instructions of a session.

    They stay the same for the whole session, so that the cached prefix does.

    Args:
        grep: name of the tool that searches contents.
        list_files: name of the tool that lists files.
        repo_context: the project's own instructions, such as those of AGENTS.md.
    """
    prompt = SYSTEM_PROMPT.format(grep=grep, list_files=list_files)
    if not repo_context:
        return prompt
    if len(repo_context) > MAX_REPO_CONTEXT:
        cut = f"[cut after {MAX_REPO_CONTEXT:,} characters; read the files for the rest]"
        repo_context = f"{repo_context[:MAX_REPO_CONTEXT]}\n{cut}"
    return f"{prompt}\n\nThe project's instructions:\n{repo_context}"
