"""The live page: one document with inline style and script, which fetches only the proxy's status."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from typing import Final

_SCRIPTS: Final = ("base", "bar", "session", "live")
"""The page's scripts, in order; together they are one."""


def _read(name: str) -> str:
    return files("wane.proxy.server").joinpath("page", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """The hash by which a content policy allows an inline element."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _script() -> str:
    body = "\n".join(_read(f"{name}.js") for name in _SCRIPTS)
    return f'"use strict";\n(() => {{\n{body}}})();\n'


_PARTS: Final = {"style": _read("page.css"), "script": _script()}

PAGE: Final = re.sub(r"\{\{([a-z]+)\}\}", lambda found: _PARTS[found[1]], _read("page.html")).encode()
"""The page, as HTML in UTF-8."""

POLICY: Final = "; ".join(
    [
        "default-src 'none'",
        f"script-src {_hash(_PARTS['script'])}",
        f"style-src {_hash(_PARTS['style'])}",
        "connect-src 'self'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        # The page writes no markup from scripts, so none may.
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
)
"""Its content policy: only Wane's own style and script run, by their hashes."""
