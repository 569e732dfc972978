"""What the user allowed or denied for good, by project, in a file beside their settings.

It is the user's own file, never the project's: a repository that was cloned must not bring permissions along.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any, Final

from filelock import FileLock

from wane.agent.approval.rules import Rule
from wane.core.errors import ConfigError

FILE: Final = "approvals.json"
"""Its name, in the directory of the user's settings."""


class Remembered:
    """The rules of one project.

    Args:
        path: the file.
        project: the project's directory.

    Attributes:
        allow: what is allowed.
        deny: what is denied.

    Raises:
        ConfigError: if the file is not what `add` writes.
    """

    def __init__(self, path: Path, project: Path) -> None:
        self.path = path
        self._project = str(project)
        self.allow: list[Rule] = []
        self.deny: list[Rule] = []
        self._take(self._read())

    def add(self, rule: Rule, *, allowed: bool) -> None:
        """Remember a rule.

        Raises:
            OSError: if the file cannot be written.
        """
        self._change(lambda rules: rules["allow" if allowed else "deny"].append(rule.text))

    def forget(self, rule: Rule) -> None:
        """Forget a rule, whether it allows or denies.

        Raises:
            OSError: if the file cannot be written.
        """
        self._change(lambda rules: [texts.remove(rule.text) for texts in rules.values() if rule.text in texts])

    def _change(self, change: Any) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # Another session may have added rules since.
        with FileLock(f"{self.path}.lock"):
            projects = self._read()
            rules = {kind: list(projects.get(self._project, {}).get(kind, ())) for kind in ("allow", "deny")}
            change(rules)
            projects[self._project] = {kind: list(dict.fromkeys(texts)) for kind, texts in rules.items()}
            handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=FILE)
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                json.dump(projects, stream, indent=2, ensure_ascii=False)
            os.replace(name, self.path)
        self._take(projects)

    def _read(self) -> dict[str, dict[str, list[str]]]:
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            raise ConfigError(f"cannot read the approvals {self.path}: {error}; repair or delete the file") from error
        if not isinstance(found, dict) or not all(_is_rules(rules) for rules in found.values()):
            raise ConfigError(f"the approvals {self.path} are no lists of rules by project; repair or delete the file")
        return found

    def _take(self, projects: dict[str, dict[str, list[str]]]) -> None:
        rules = projects.get(self._project, {})
        self.allow = [Rule(text) for text in rules.get("allow", ())]
        self.deny = [Rule(text) for text in rules.get("deny", ())]


def project_of(directory: Path) -> Path:
    """Return the project that a directory belongs to: the repository's root, or the directory itself."""
    return next((path for path in (directory, *directory.parents) if (path / ".git").exists()), directory)


def _is_rules(rules: object) -> bool:
    return isinstance(rules, dict) and all(
        kind in ("allow", "deny") and isinstance(texts, list) and all(isinstance(text, str) for text in texts)
        for kind, texts in rules.items()
    )
