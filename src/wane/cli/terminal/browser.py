"""Opens a page in the user's browser."""

from __future__ import annotations

import os
import webbrowser
from pathlib import Path


def open_page(page: Path) -> bool:
    """Open a page in the user's browser, and return whether there is one that shows it."""
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return False
    # A text browser would take over the terminal, and cannot show the page.
    if type(browser) is webbrowser.GenericBrowser and "BROWSER" not in os.environ:
        return False
    return browser.open(page.resolve().as_uri())
