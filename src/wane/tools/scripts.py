"""What scripts on an interpreter's command line, statements for a database and patches change."""

from __future__ import annotations

import re
from typing import Final

from wane.tools.judgement import Activity, Judgement
from wane.tools.paths import basename, is_scratch

_OPENED: Final = re.compile(r"""open\(\s*[rf]?(['"])([^'"\n]+)\1\s*,\s*(?:mode\s*=\s*)?['"]([rwaxb+t]+)['"]""")
_WRITTEN: Final = re.compile(
    r"""Path\(\s*[rf]?(['"])([^'"\n]+)\1\s*\)\.(?:write_text|write_bytes|unlink|touch|mkdir)|"""
    r"""(?:writeFileSync|writeFile|File\.write|to_csv|to_json|to_parquet|savefig|np\.save|imwrite|write\.csv|saveRDS)"""
    r"""\(\s*[rf]?(['"])([^'"\n]+)\3"""
)
_READ: Final = re.compile(r"""(?:open|read_csv|read_json|Path|load|readFileSync|imread)\(\s*[rf]?(['"])([^'"\n]+)\1""")
_CHANGES: Final = re.compile(
    r"\.write_(?:text|bytes)\(|\.writelines\(|\bos\.(?:remove|rename|makedirs|mkdir|unlink|symlink|chmod|rmdir)\b|"
    r"\bshutil\.(?:copy\w*|move|rmtree)\b|\.to_(?:csv|json|parquet|pickle|excel)\(|\.save(?:fig|_pretrained|_model)?\(|"
    r"\b(?:json|pickle|yaml|torch)\.(?:dump|save)\(|writeFile|fs\.(?:rm|unlink|rename|mkdir|cp)|install\.packages|"
    r"\bimwrite\(|write\.(?:csv|table)\(|saveRDS\(|\.unlink\(|\.commit\(\)|open\([^)\n]*['\"][wax]b?\+?['\"]|"
    r"subprocess\.[^\n]*(?:pip|apt|git)['\", ]"
)
_STATEMENT: Final = re.compile(
    r"\b(?:INSERT\s+INTO|UPDATE\s+\S+\s+SET|DELETE\s+FROM|CREATE\s+|DROP\s+|ALTER\s+|REPLACE\s+INTO|TRUNCATE\s+|VACUUM)",
    re.IGNORECASE,
)
# Of Codex's own format of patches, and of unified diffs.
_PATCHED: Final = re.compile(
    r"^(?:\*\*\* (?:Update|Add|Delete) File: |\*\*\* Move to: |\+\+\+ (?:b/)?)([^\t\n]+)", re.MULTILINE
)


def script_judgement(script: str, interpreter: str) -> Judgement:
    """Judge a script by what it writes; one that writes nothing lasting counts as a run."""
    opened = [(match[2], match[3]) for match in _OPENED.finditer(script)]
    writes = [path for path, mode in opened if set(mode) & set("wax+")]
    writes += [match[2] or match[4] for match in _WRITTEN.finditer(script)]
    lasting = [path for path in writes if not is_scratch(path)]
    reads = tuple(dict.fromkeys(match[2] for match in _READ.finditer(script) if match[2] not in writes))
    if lasting or (not writes and _CHANGES.search(script)):
        return Judgement(
            Activity.ACT, reads, tuple(dict.fromkeys(writes)), basename(lasting[0]) if lasting else interpreter
        )
    return Judgement(Activity.VERIFY, reads, (), basename(reads[0]) if reads else interpreter)


def changes_data(statements: str) -> bool:
    """Whether statements change a database."""
    return _STATEMENT.search(statements) is not None


def patched_files(text: str) -> tuple[str, ...]:
    """Return the files that a patch names, in order, without repeats."""
    named = (match[1].strip() for match in _PATCHED.finditer(text))
    return tuple(dict.fromkeys(path for path in named if path != "/dev/null"))
