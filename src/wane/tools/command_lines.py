"""Judges shell command lines by what they do, and recognises those that only search or list."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, Literal

from wane.tools import programs as known
from wane.tools.judgement import Activity, Judgement, combine_judgements
from wane.tools.paths import basename, is_scratch, resolve
from wane.tools.shell import ShellCommand, parse

_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*\+?=")
_CHANGING_SCRIPT: Final = re.compile(known.CHANGING_SCRIPT)
_ASKS_FOR_HELP: Final = frozenset({"--version", "--help", "-version", "-V"})
_MAX_NESTING: Final = 6
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
# Files in patches, in Codex's own format or as unified diffs.
_PATCHED: Final = re.compile(
    r"^(?:\*\*\* (?:Update|Add|Delete) File: |\*\*\* Move to: |\+\+\+ (?:b/)?)([^\t\n]+)", re.MULTILINE
)
_SEARCHING_GIT: Final = frozenset({"grep", "ls-files", "ls-tree", "ls-remote"})


def judge_command(line: str, directory: str = "", *, nesting: int = 0) -> Judgement:
    """Judge a command line.

    Args:
        line: the command line.
        directory: the directory that it runs in, if it is known.
        nesting: number of shells around it.
    """
    judgements = []
    for simple in parse(line):
        judgement = _simple(simple, nesting)
        reads = tuple(resolve(path, directory) for path in judgement.reads)
        writes = tuple(resolve(path, directory) for path in judgement.writes)
        judgements.append(replace(judgement, reads=reads, writes=writes))
        if simple.words[:1] == ["cd"] and len(simple.words) > 1:
            directory = resolve(simple.words[1], directory)
    return combine_judgements(judgements)


def _simple(simple: ShellCommand, nesting: int) -> Judgement:
    judgement = _program(bare_words(simple.words), simple.heredoc, nesting)
    writes = tuple(path for path in simple.writes if not path.startswith("/dev/"))
    judgement = replace(judgement, reads=(*judgement.reads, *simple.reads), writes=(*judgement.writes, *writes))
    if not writes:
        return judgement
    # Output of a program in a scratch file, or in a log of a test run, is not a lasting change.
    authored = simple.heredoc is not None or judgement.activity is Activity.NEUTRAL
    lasting = authored or any(not is_scratch(path) for path in writes)
    if judgement.activity is Activity.VERIFY or not lasting:
        return judgement
    return replace(judgement, activity=Activity.ACT, hint=basename(writes[0]))


def bare_words(words: Sequence[str]) -> list[str]:
    """Return the words of a command without assignments, shell keywords, and programs that only run another one."""
    remaining = list(words)
    while remaining:
        first = remaining[0]
        if _ASSIGNMENT.match(first) or first in known.KEYWORDS:
            del remaining[0]
        elif (wrapper := basename(first)) in known.WRAPPERS:
            inner = inner_words(remaining[1:], known.WRAPPERS[wrapper])
            if not inner:
                return remaining
            remaining = inner
        elif len(remaining) > 2 and (first, remaining[1]) in known.WRAPPING:
            if remaining[1] == "pip":
                remaining = remaining[1:]
            else:
                remaining = inner_words(remaining[2:], 0)
        else:
            break
    return remaining


def inner_words(words: list[str], own: int) -> list[str]:
    """Return the command that a wrapper runs: the words after its name without its options and its `own` arguments."""
    position = 0
    while position < len(words):
        word = words[position]
        if word.startswith("-") and len(word) > 1:
            position += 2 if word in known.WRAPPER_OPTIONS else 1
        elif _ASSIGNMENT.match(word):
            position += 1
        elif own:
            own -= 1
            position += 1
        else:
            break
    return words[position:]


def _program(words: list[str], heredoc: str | None, nesting: int) -> Judgement:
    if not words:
        return Judgement(Activity.NEUTRAL)
    name, arguments = basename(words[0]), words[1:]
    if name in known.NEUTRAL or name.startswith("$()"):
        return Judgement(Activity.NEUTRAL)
    if arguments and _ASKS_FOR_HELP.issuperset(arguments):
        return Judgement(Activity.EXPLORE, hint=name)
    if name in known.SHELLS or name == "eval":
        return _shell(name, arguments, heredoc, nesting)
    if name in known.INTERPRETERS:
        return _interpreter(name, arguments, heredoc)
    if rule := _RULES.get(name):
        return rule(name, arguments, heredoc)
    if name in known.ACTING:
        return _acting(name, arguments, heredoc)
    if name in known.EXPLORING:
        return Judgement(Activity.EXPLORE, _files_read(name, arguments), (), _search_hint(name, arguments))
    # An unknown program is judged by its subcommand; without a known one it counts as a run.
    verb = "".join(_operands(arguments)[:1])
    if verb in known.LOOKING:
        return Judgement(Activity.EXPLORE, hint=f"{name} {verb}")
    if verb in known.CHANGING:
        return Judgement(Activity.ACT, hint=f"{name} {verb}")
    return Judgement(Activity.VERIFY, hint=name)


def _shell(name: str, arguments: list[str], heredoc: str | None, nesting: int) -> Judgement:
    line = " ".join(arguments) if name == "eval" else _line_argument(arguments)
    if line is None:
        line = heredoc
    if line is None or nesting >= _MAX_NESTING:
        operands = _operands(arguments)
        return Judgement(Activity.VERIFY, hint=basename(operands[0] if operands else name))
    return judge_command(line, nesting=nesting + 1)


def _line_argument(words: Sequence[str]) -> str | None:
    """Return the command line after a shell's `-c`; None without this option."""
    for position, word in enumerate(words):
        if re.fullmatch(r"-\w*c", word):
            return "".join(words[position + 1 : position + 2])
    return None


def _operands(arguments: Sequence[str]) -> list[str]:
    return [word for word in arguments if not word.startswith("-")]


def _interpreter(name: str, arguments: list[str], heredoc: str | None) -> Judgement:
    for position, word in enumerate(arguments):
        following = arguments[position + 1 :]
        if re.fullmatch(r"-\w*[ce]|--eval|--print|-p|-pe|-ne", word) and following:
            # perl -pi -e and ruby -pi -e edit in place
            if any(re.fullmatch(r"-\w*i(\.\w+)?\w*", flag) for flag in arguments[:position]) or "i" in word[:-1]:
                return Judgement(Activity.ACT, (), _find_files(following[1:]), _first_name(following[1:]) or name)
            return _script(following[0], name)
        if word == "-m" and following:
            # A module that runs as a program is judged like the program of its name.
            if following[0] == "venv":
                return Judgement(Activity.ACT, hint="venv")
            bare = bare_words(following)
            if not bare or basename(bare[0]) in known.INTERPRETERS:
                return Judgement(Activity.VERIFY, hint=following[0])
            return _program(bare, None, _MAX_NESTING)
        if not word.startswith("-"):
            if name in ("bun", "deno"):
                return _builder(name, arguments, None)
            return Judgement(Activity.VERIFY, hint=basename(word))
    return _script(heredoc, name) if heredoc else Judgement(Activity.VERIFY, hint=name)


def _script(script: str, interpreter: str) -> Judgement:
    """Judge a script by what it writes; one that writes nothing lasting counts as a run."""
    writes = [match[2] for match in _OPENED.finditer(script) if set(match[3]) & set("wax+")]
    writes += [match[2] or match[4] for match in _WRITTEN.finditer(script)]
    lasting = [path for path in writes if not is_scratch(path)]
    reads = tuple(dict.fromkeys(match[2] for match in _READ.finditer(script) if match[2] not in writes))
    if lasting or (not writes and _CHANGES.search(script)):
        return Judgement(Activity.ACT, reads, tuple(dict.fromkeys(writes)), _first_name(lasting) or interpreter)
    return Judgement(Activity.VERIFY, reads, (), _first_name(reads) or interpreter)


def patched_files(text: str) -> tuple[str, ...]:
    """Return the files that a patch names, in order, without repeats."""
    named = (match[1].strip() for match in _PATCHED.finditer(text))
    return tuple(dict.fromkeys(path for path in named if path != "/dev/null"))


def _git(name: str, arguments: list[str], heredoc: str | None) -> Judgement:
    position = 0
    while position < len(arguments) and arguments[position].startswith("-"):
        position += 2 if arguments[position] in ("-C", "-c", "--git-dir", "--work-tree") else 1
    verb = "".join(arguments[position : position + 1])
    hint = f"{name} {verb}".strip()
    if verb in known.GIT_REVIEW:
        return Judgement(Activity.REVIEW, hint=hint)
    if not verb or verb in known.GIT_EXPLORING or _git_lists(verb, arguments[position + 1 :]):
        return Judgement(Activity.EXPLORE, hint=hint)
    writes = patched_files(heredoc) if heredoc and verb in ("apply", "am") else ()
    return Judgement(Activity.ACT, (), writes, hint)


def _git_lists(verb: str, operands: list[str]) -> bool:
    """Whether a subcommand that can also change something only lists, by its operands."""
    if verb not in known.GIT_LISTS:
        return False
    if not operands:
        return verb != "stash"
    deciding = operands if verb == "config" else operands[:1]
    return any(word.partition("=")[0] in known.GIT_LISTS[verb] for word in deciding)


def _gh(name: str, arguments: list[str], heredoc: str | None) -> Judgement:  # noqa: ARG001 - a rule's
    hint = " ".join([name, *arguments[:2]])
    if arguments[:1] == ["api"]:
        line = " ".join(arguments)
        method = re.search(r"(?:-X|--method)[ =]?(\w+)", line)
        fields = re.search(r" (-f|-F|--field|--raw-field|--input)\b", line)
        if method:
            writes = method[1].upper() != "GET"
        else:
            writes = "mutation" in line or (fields is not None and "graphql" not in arguments[1:2])
        return Judgement(Activity.ACT if writes else Activity.EXPLORE, hint=f"{name} api")
    looks = arguments[:1] == ["search"] or known.GH_EXPLORING.intersection(arguments[1:2])
    return Judgement(Activity.EXPLORE if looks else Activity.ACT, hint=hint)


def _judge_sed(name: str, arguments: list[str], heredoc: str | None) -> Judgement:  # noqa: ARG001
    in_place = any(re.match(r"-[nErsz]*i|--in-place", word) for word in arguments)
    if not in_place or (name != "sed" and "inplace" not in arguments):
        return Judgement(Activity.EXPLORE, _files_read(name, arguments), (), _search_hint(name, arguments))
    files = tuple(path for path in _find_files(arguments)[1:] if path) or _find_files(arguments)[-1:]
    return Judgement(Activity.ACT, (), files, _first_name(files) or name)


def _find(name: str, arguments: list[str], heredoc: str | None) -> Judgement:
    if "-delete" in arguments:
        return Judgement(Activity.ACT, hint=name)
    for flag in ("-exec", "-execdir", "-ok"):
        if flag in arguments:
            words = bare_words(arguments[arguments.index(flag) + 1 :])
            if words[:1] == [name]:
                break
            inner = _program(words, heredoc, _MAX_NESTING)
            return Judgement(max(inner.activity, Activity.EXPLORE), hint=inner.hint or name)
    return Judgement(Activity.EXPLORE, hint=_search_hint(name, arguments))


def _download(name: str, arguments: list[str], heredoc: str | None) -> Judgement:  # noqa: ARG001
    line = " ".join(arguments)
    if name == "wget":
        saves = not re.search(r"(^| )(-q?O ?-|--spider|-O ?/dev/null|--output-document=-)", line)
        target = re.search(r"-\w*O ?([^ ]+)", line)
    else:
        if re.search(r"(^| )(-X ?(POST|PUT|PATCH|DELETE)|-d|--data[\w-]*|-F|--form|-T)\b", line):
            return Judgement(Activity.VERIFY, hint=name)
        target = re.search(r"(?:^| )(?:-\w*o|--output) ?=?([^ ]+)", line)
        saves = target is not None or bool(re.search(r"(^| )(-\w*O|--remote-name)\b", line))
    file = target[1] if target else ""
    if not saves or (file and is_scratch(file)):
        return Judgement(Activity.EXPLORE, hint=name)
    return Judgement(Activity.ACT, (), (file,) if file else (), basename(file) or name)


def _archive(name: str, arguments: list[str], heredoc: str | None) -> Judgement:  # noqa: ARG001
    flags = "".join(arguments[:1])
    lists = "-l" in arguments or (name == "tar" and "t" in flags.lstrip("-") and not flags.startswith("--"))
    return Judgement(Activity.EXPLORE if lists or "--list" in arguments else Activity.ACT, hint=name)


def _database(name: str, arguments: list[str], heredoc: str | None) -> Judgement:
    changes = _STATEMENT.search(" ".join([*arguments, heredoc or ""]))
    return Judgement(Activity.ACT if changes else Activity.EXPLORE, hint=name)


def _manager(name: str, arguments: list[str], heredoc: str | None) -> Judgement:  # noqa: ARG001
    """Package managers and service managers."""
    verbs = _operands(arguments)[:2]
    looks = bool(known.LOOKING.intersection(verbs or arguments[:1]))
    if not looks and name in known.SERVICES and verbs[:1] in (["exec"], ["run"]):
        return Judgement(Activity.VERIFY, hint=name)
    return Judgement(Activity.EXPLORE if looks else Activity.ACT, hint=" ".join([name, *verbs[:1]]))


def _builder(name: str, arguments: list[str], heredoc: str | None) -> Judgement:  # noqa: ARG001
    """Tools that build and test, and sometimes install."""
    verbs = [word for word in _operands(arguments) if "=" not in word]
    verb = verbs[0] if verbs else ""
    shown = 2 if verb in ("run", "tool") else 1
    hint = " ".join([name, *verbs[:shown]])
    installs = name in ("npm", "pnpm", "yarn", "bun", "poetry") and verb in ("i", "ci", "install", "add")
    if verb in ("get", "version", "config") and name not in ("go", "npm", "pnpm", "yarn"):
        return Judgement(Activity.VERIFY, hint=hint)
    # The project's own scripts and targets are known by their names.
    scripts = verbs[:1] if name in ("make", "gmake", "just", "task") else []
    if verbs[:1] == ["run"]:
        scripts = verbs[1:2]
    changes = installs or verb in known.CHANGING or any(_CHANGING_SCRIPT.search(script) for script in scripts)
    if changes and "--check" not in arguments:
        return Judgement(Activity.ACT, hint=hint)
    return Judgement(Activity.EXPLORE if verb in known.LOOKING else Activity.VERIFY, hint=hint)


def _tee(name: str, arguments: list[str], heredoc: str | None) -> Judgement:
    # Output that is also kept in a log is not a lasting change.
    files = tuple(path for path in _find_files(arguments) if not path.startswith("/dev/"))
    lasting = [path for path in files if not is_scratch(path) and not path.endswith((".log", ".out"))]
    if not lasting and heredoc is None:
        return Judgement(Activity.NEUTRAL, (), files)
    return Judgement(Activity.ACT, (), files, f"{name} {_first_name(files)}".strip())


def _formatter(name: str, arguments: list[str], heredoc: str | None) -> Judgement:  # noqa: ARG001
    """Linters and formatters that change files only with an option for it."""
    flags = {"--fix", "--write", "-w", "-i", "format", "--apply", "--fix-only", "-a", "-A"}.intersection(arguments)
    changes = flags and "--check" not in arguments and "--diff" not in arguments
    return Judgement(Activity.ACT if changes else Activity.VERIFY, hint=name)


def _acting(name: str, arguments: list[str], heredoc: str | None) -> Judgement:
    if name in ("apply_patch", "applypatch", "patch"):
        files = patched_files("\n".join([*arguments, heredoc or ""]))
        return Judgement(Activity.ACT, (), files, _first_name(files) or name)
    if {"--check", "--diff"}.intersection(arguments):  # of a formatter
        return Judgement(Activity.VERIFY, hint=name)
    files = _find_files(arguments)
    if name in ("cp", "install", "rsync", "scp"):
        return Judgement(Activity.ACT, files[:-1], files[-1:], f"{name} {_first_name(files[-1:])}".strip())
    if name in ("touch", "rm", "mv", "tee", "ln"):
        return Judgement(Activity.ACT, (), files, f"{name} {_first_name(files)}".strip())
    return Judgement(Activity.ACT, hint=name)


def _files_read(name: str, arguments: list[str]) -> tuple[str, ...]:
    files = _find_files(arguments)
    if name in known.SEARCHERS:
        return tuple(path for path in files[1:] if "." in basename(path) and not set(path) & set("*!"))
    return files if name in known.READERS else ()


def _find_files(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments that may be files: not options, numbers or substitutions."""
    return tuple(word for word in arguments if word and not word.startswith(("-", "+", "$()")) and not word.isdigit())


def _first_name(files: Sequence[str]) -> str:
    return basename(files[0]) if files else ""


def _search_hint(name: str, arguments: list[str]) -> str:
    files = _files_read(name, arguments) or _find_files(arguments)
    if name in known.SEARCHERS - {"sed", "awk", "gawk"}:
        return " ".join([name, *_find_files(arguments)[:1]])
    if files and (name == "sed" or name in known.READERS):
        return basename(files[-1])
    return name


_Rule = Callable[[str, list[str], str | None], Judgement]

_RULES: Final[dict[str, _Rule]] = {
    "git": _git,
    "tee": _tee,
    "gh": _gh,
    "glab": _gh,
    "hub": _git,
    **dict.fromkeys(("sed", "gsed", "awk", "gawk"), _judge_sed),
    **dict.fromkeys(("find", "fd", "fdfind"), _find),
    **dict.fromkeys(("curl", "wget"), _download),
    **dict.fromkeys(("tar", "unzip", "7z"), _archive),
    **dict.fromkeys(known.DATABASES, _database),
    **dict.fromkeys(known.INSTALLERS | known.SERVICES, _manager),
    **dict.fromkeys(known.BUILDERS, _builder),
    **dict.fromkeys(
        ("ruff", "eslint", "prettier", "biome", "gofmt", "goimports", "clang-format", "golangci-lint", "rubocop"),
        _formatter,
    ),
}


def only_searches(line: str) -> bool:
    """Whether a command line only searches or lists, with nothing but filters of the output beside it."""
    commands = parse(line)
    if max((_simple(command, 0).activity for command in commands), default=None) is not Activity.EXPLORE:
        return False
    roles = {_role_in_search(command) for command in commands}
    return "search" in roles and "other" not in roles


def _role_in_search(simple: ShellCommand) -> Literal["search", "filter", "nothing", "other"]:
    words = bare_words(simple.words)
    name = basename(words[0]) if words else ""
    if not words or name in known.NEUTRAL:
        return "nothing"
    if name in known.LISTING or (name == "git" and _SEARCHING_GIT.intersection(words[1:])):
        return "other" if _shows_files(words) else "search"
    if name in known.SHELLS:
        return "search" if only_searches(_line_argument(words) or "") else "other"
    # With a file to read it shows that file; after `xargs` it shows every file that the search lists.
    shows_files = simple.reads or "xargs" in simple.words or any(_is_file(word) for word in words[1:])
    return "filter" if name in known.FILTERS and not shows_files else "other"


def _shows_files(words: list[str]) -> bool:
    """Whether `find -exec` shows the contents of the files that it finds."""
    for position, word in enumerate(words):
        if word in ("-exec", "-execdir", "-ok"):
            return basename("".join(words[position + 1 : position + 2])) not in known.LISTING
    return False


def _is_file(word: str) -> bool:
    return not word.startswith(("-", "+", "$()")) and ("." in word or "/" in word)
