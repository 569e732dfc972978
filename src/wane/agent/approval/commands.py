"""Splits a command line into the simple commands that it runs, with a parser of the shell's grammar.

The result decides what runs without asking. So this is strict: a construct that is unknown, or that `sh` and `bash`
read differently, makes the whole line unreadable.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from wane.tools import programs as known
from wane.tools.shell import parse

_NESTED: Final = known.word_set("""
    program list pipeline subshell compound_statement if_statement elif_clause else_clause while_statement for_statement
    do_group negated_command function_definition command_substitution process_substitution
    redirected_statement heredoc_redirect herestring_redirect variable_assignments heredoc_body
""")
"""Nodes that contain commands."""

_TEXT: Final = known.word_set("""
    word number string raw_string string_content concatenation simple_expansion expansion variable_name
    special_variable_name subscript arithmetic_expansion binary_expression unary_expression parenthesized_expression
    ternary_expression postfix_expression comment heredoc_start heredoc_content heredoc_end file_descriptor
    translated_string extglob_pattern regex test_operator array command_name
""")
"""Nodes of words, which may contain substitutions. `$'…'` is left out, because dash ends it at another quote."""

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]|[^\S \t\n]")
"""Control characters, and spaces that separate words for some programs only."""
_AMBIGUOUS: Final = re.compile(r"[;&|<>()`\n]|\$\(")
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED_IN_QUOTES: Final = re.compile(r'\\([$`"\\])')
_DISCARDED: Final = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})
_WRITING: Final = frozenset({">", ">>", ">|", "&>", "&>>", "<>", ">&"})


@dataclass(frozen=True, slots=True)
class ShellPart:
    """A simple command, an assignment, or a redirection that writes a file.

    Attributes:
        text: its text in the line.
        words: its words without quotes; None for one that the shell expands, such as `$x`. The words of a redirection
            are `>` and the file, those of an assignment its text.
    """

    text: str
    words: tuple[str | None, ...]


def parts_of(line: str) -> tuple[ShellPart, ...] | None:
    """Return all that a command line runs or writes, without repetitions; None if it cannot be read with certainty."""
    source = line.encode("utf-8", "replace")
    root = _parser().parse(source).root_node
    if root.has_error or _CONTROL.search(line):
        return None
    try:
        commands = tuple(dict.fromkeys(_parts(root)))
    except (_UnreadableError, RecursionError):
        return None
    return commands if commands and _agree(line, commands) else None


class _UnreadableError(Exception):
    """The line has a construct that cannot be read with certainty."""


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_bash.language()))


def _parts(node: Node) -> Iterator[ShellPart]:
    match node.type:
        case "command":
            # A here-string may be inside the command's node.
            words = [child for child in node.children if not child.type.endswith("_redirect")]
            assigned = "variable_assignment"
            yield ShellPart(
                _source(node), tuple(_source(word) if word.type == assigned else _word(word) for word in words)
            )
        case "variable_assignment":
            yield ShellPart(_source(node), (_source(node),))
        case "declaration_command" | "unset_command":
            yield ShellPart(_source(node), tuple(_source(node).split()))
        case "file_redirect":
            yield from _redirection(node)
        case "test_command":
            if _source(node).startswith("[[") or _AMBIGUOUS.search(_source(node)):
                raise _UnreadableError
            return
        case "compound_statement" if _source(node).startswith("(("):
            raise _UnreadableError
        case kind if kind not in _NESTED and kind not in _TEXT:
            raise _UnreadableError
    # Assignments before a command are words of the command.
    own = node.type in ("command", "declaration_command")
    for child in node.named_children:
        if own and child.type == "variable_assignment":
            for value in child.named_children:
                yield from _parts(value)
        else:
            yield from _parts(child)


def _redirection(node: Node) -> Iterator[ShellPart]:
    target = node.child_by_field_name("destination")
    operator = next((child.type for child in node.children if not child.is_named), "")
    if target is None or operator not in _WRITING or (operator == ">&" and target.type == "number"):
        return
    path = _word(target)
    if path not in _DISCARDED:
        yield ShellPart(f"> {_source(target)}", (">", None if path is None else posixpath.normpath(path)))


def _word(node: Node) -> str | None:
    """The word as the program receives it, before patterns are expanded; None if the shell substitutes something."""
    text = _source(node)
    match node.type:
        case "command_name":
            return _word(node.named_children[0]) if len(node.named_children) == 1 else None
        case "word" | "number" | "-":
            return _ESCAPED.sub(lambda escape: "" if escape[1] == "\n" else escape[1], text)
        case "raw_string":
            return text[1:-1]
        case "string" if all(child.type == "string_content" for child in node.named_children):
            return _ESCAPED_IN_QUOTES.sub(r"\1", text[1:-1]).replace("\\\n", "")
        case "concatenation":
            pieces = [_word(child) for child in node.named_children]
            # A brace between the pieces is not a named node.
            covered = sum(child.end_byte - child.start_byte for child in node.named_children)
            if None not in pieces and covered == node.end_byte - node.start_byte:
                return "".join(filter(None, pieces))
    return None


def _source(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def _agree(line: str, parts: tuple[ShellPart, ...]) -> bool:
    """Whether `wane.tools.shell`, which reads the line in another way, finds no program that is not among the parts."""
    of_parts = {word for part in parts for word in part.words}
    for simple in parse(line):
        words = simple.words
        while words and (words[0] in known.KEYWORDS or re.match(r"[A-Za-z_]\w*\+?=", words[0])):
            words = words[1:]
        name = words[0] if words else ""
        if name and "$" not in name and name not in known.NEUTRAL and name not in of_parts and f"{name}()" not in line:
            return False
    return True
