"""Gather the pages of the documentation's site, for `zensical build`.

    python scripts/site_pages.py FOLDER     gather them
    python scripts/site_pages.py --words    count the words of the guide, as `wc -w` does

Copies `docs/` and some pages outside it to FOLDER, and adapts their links, which are written for the repository: a link
to a page that is on the site leads to its copy, and a link to source code becomes plain text.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

from check_docs import LINK  # noqa: E402

FROM_ROOT: Final = {
    "README.md": "index.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "benchmarks/README.md": "project/measuring.md",
    "research/README.md": "project/research.md",
}
"""Pages outside `docs/`, with their paths on the site."""

UNSEARCHED: Final = "---\nsearch:\n  exclude: true\n---\n\n"
"""Stands before the changelog on the site, which says everything once more and would be found before it."""

OFF_SITE: Final = ("docs/decisions/",)
"""Folders of `docs/` for those who work on Wane, which are read in the repository."""

_FENCED: Final = re.compile(r"(^ *(?:```|~~~).*?^ *(?:```|~~~) *$)", re.DOTALL | re.MULTILINE)
_CODE: Final = re.compile(r"(`[^`\n]*`)")


def place(path: Path, root: Path) -> str | None:
    """Return the path on the site of a file in the repository; None if it is not on the site."""
    inside = path.relative_to(root).as_posix()
    if inside.startswith(OFF_SITE):
        return None
    return inside.removeprefix("docs/") if inside.startswith("docs/") else FROM_ROOT.get(inside)


def adapt_links(text: str, source: Path, target: str, root: Path) -> str:
    """Return a page's text with its links adapted to its path on the site."""

    def link(match: re.Match[str]) -> str:
        file, hash_, anchor = match[1].partition("#")
        if not file or re.match(r"[a-z][a-z+.-]*:", file):
            return match[0]
        to = place((source.parent / file).resolve(), root)
        if to is None:
            return match[0][match[0].index("[") + 1 : match[0].rindex("](")]
        return match[0].replace(match[1], os.path.relpath(to, Path(target).parent) + hash_ + anchor)

    parts = []
    for part in _FENCED.split(text):
        if part.lstrip().startswith(("```", "~~~")):
            parts.append(part)
            continue
        # In a table GitHub needs `a\|b` for a bar in code, and drops the backslash. The site would show it.
        prose = _CODE.sub(lambda code: code[0].replace(r"\|", "|"), part)
        parts.append(LINK.sub(link, prose))
    return "".join(parts)


def gather(folder: Path, root: Path = ROOT) -> None:
    """Copy all pages, pictures and styles to a folder. It is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(root / "docs", folder)
    for inside in OFF_SITE:
        shutil.rmtree(folder / inside.removeprefix("docs/"), ignore_errors=True)
    pages = [(page, page.relative_to(root / "docs").as_posix()) for page in on_site(root)]
    pages += [(root / page, to) for page, to in FROM_ROOT.items()]
    for source, target in pages:
        (folder / target).parent.mkdir(parents=True, exist_ok=True)
        text = adapt_links(source.read_text(encoding="utf-8"), source, target, root)
        head = UNSEARCHED if source.name == "CHANGELOG.md" else ""
        (folder / target).write_text(f"{head}{text}", encoding="utf-8")


def on_site(root: Path) -> list[Path]:
    """Return the pages of `docs/` that are on the site."""
    return [page for page in sorted((root / "docs").rglob("*.md")) if place(page, root) is not None]


def list_pages(nav: Any) -> set[str]:
    """Return the pages of a navigation, or of a part of one."""
    if isinstance(nav, str):
        return {nav}
    pages: set[str] = set()
    for part in nav.values() if isinstance(nav, dict) else nav:
        pages |= list_pages(part)
    return pages


def navigation(root: Path) -> list[Any]:
    """Return the navigation of the site."""
    nav: list[Any] = tomllib.loads((root / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]
    return nav


def guide_words(root: Path = ROOT) -> dict[str, int]:
    """Return the number of words of each page in the navigation's part `Guide`, by its path on the site."""
    (guide,) = (part["Guide"] for part in navigation(root) if "Guide" in part)
    sources = {to: page for page, to in FROM_ROOT.items()}
    files = {page: root / sources.get(page, f"docs/{page}") for page in sorted(list_pages(guide))}
    return {page: len(file.read_text(encoding="utf-8").split()) for page, file in files.items()}


def problems(root: Path = ROOT) -> list[str]:
    """Return the pages that the navigation lacks, and its entries without a page."""
    nav = list_pages(navigation(root))
    pages = {page.relative_to(root / "docs").as_posix() for page in on_site(root)}
    pages |= set(FROM_ROOT.values())
    return [
        *(f"zensical.toml: docs/{page} is not in the navigation" for page in sorted(pages - nav)),
        *(f"zensical.toml: the navigation leads to {page}, which does not exist" for page in sorted(nav - pages)),
    ]


def main(args: list[str]) -> int:
    """Gather the pages, and return 1 if the navigation does not match them. With `--words`, only count."""
    if args == ["--words"]:
        counts = guide_words()
        for page, count in counts.items():
            print(f"{count:6,}  {page}")
        print(f"{sum(counts.values()):6,}  in all")
        return 0
    gather(Path(args[0]))
    faults = problems()
    for problem in faults:
        print(problem, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
