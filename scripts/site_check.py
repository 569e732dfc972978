"""Check a built site: its links have targets, and it loads nothing from the web, so that it can be read offline.

python scripts/site_check.py FOLDER
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

# Tags whose addresses a browser fetches with the page.
_LOADED: Final = {"script", "img", "iframe", "source", "video"}
_RELATIONS: Final = {"stylesheet", "icon", "preload", "preconnect"}
# It is served for any wrong address, so its links begin at the root.
_ANYWHERE: Final = "404.html"


class Page(HTMLParser):
    """The anchors and links of a page; `loads` has the addresses that a browser fetches with it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect a tag's anchors and addresses."""
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        address = values.get("src") or values.get("href")
        if not address:
            return
        if tag in _LOADED or (tag == "link" and _RELATIONS & set(values.get("rel", "").split())):
            self.loads.append(address)
        if tag != "link" or values.get("rel") not in ("canonical", "prev", "next"):
            self.links.append(address)


def problems(site: Path) -> Iterator[str]:
    """Yield the problems of a site."""
    pages = {page.resolve(): Page(page.read_text(encoding="utf-8")) for page in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(site.resolve()).as_posix()
        yield from (f"{name}: loads {address}" for address in page.loads if urlsplit(address).netloc)
        if name != _ANYWHERE:
            yield from (f"{name}: the link {link} leads nowhere" for link in page.links if not leads(link, path, pages))


def leads(link: str, path: Path, pages: Mapping[Path, Page]) -> bool:
    """Return whether a link's file exists and has the link's anchor. Links to the web are not checked."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target.is_dir():
        target = target / "index.html"
    if not target.exists():
        return False
    return not parts.fragment or target not in pages or unquote(parts.fragment) in pages[target].anchors


def main(args: list[str]) -> int:
    """Print the problems, and return 1 if there are any."""
    faults = list(problems(Path(args[0])))
    for problem in faults:
        print(problem, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
