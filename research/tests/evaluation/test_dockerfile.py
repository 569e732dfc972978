from __future__ import annotations

import pytest

from wane_research.evaluation.sandbox.image import DockerfileError, assignments, command, expand, parse, parse_copy

WHOLE = r"""
# A comment
ARG VERSION=3.13
FROM --platform=linux/amd64 python:${VERSION}-slim
WORKDIR /app
ENV A=1 B="two words" C=$A
ENV OLD the whole rest
RUN apt-get update && \
    # a comment does not end it

    apt-get install -y curl \
 && rm -rf /var/lib/apt
COPY --chown=root one.txt two.txt /data/
COPY ["with space.txt", "/app/"]
RUN --mount=type=cache,target=/x <<EOF
set -e
echo "$HOME" # kept
EOF
RUN cat <<'END' > /app/file && echo done
 indented
END
COPY <<-THERE /app/here.txt
	dedented
	THERE
CMD ["bash"]
"""


def test_a_whole_file() -> None:
    found = parse(WHOLE)
    assert found.base == "python:3.13-slim"
    words = [step.word for step in found.steps]
    assert words == ["WORKDIR", "ENV", "ENV", "RUN", "COPY", "COPY", "RUN", "RUN", "COPY"]
    env, old, apt, two, quoted, script, cat, here = found.steps[1:]
    assert assignments(env, {"A": "0"}) == {"A": "1", "B": "two words", "C": "1"}
    assert assignments(old, {}) == {"OLD": "the whole rest"}
    assert " ".join(command(apt).split()) == "apt-get update && apt-get install -y curl && rm -rf /var/lib/apt"
    assert parse_copy(two) == (("one.txt", "two.txt"), "/data/")
    assert parse_copy(quoted) == (("with space.txt",), "/app/")
    assert command(script) == 'set -e\necho "$HOME" # kept\n'
    assert command(cat) == "cat <<'END' > /app/file && echo done\n indented\nEND\n"
    assert here.body == "dedented\n"


def test_a_command_as_a_list_is_quoted() -> None:
    (step,) = parse('FROM a\nRUN ["echo", "a b"]').steps
    assert command(step) == "echo 'a b'"


def test_arguments_take_defaults_and_what_is_known() -> None:
    one, two = parse("ARG V=1\nFROM a:$V\nARG V\nARG W=x$V").steps
    assert assignments(one, {"V": "1"}) == {"V": "1"}
    assert assignments(one, {}) == {}
    assert assignments(two, {"V": "1"}) == {"W": "x1"}


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$A/b", "1/b"),
        ("${A}b", "1b"),
        ("${N:-x}", "x"),
        ("${A:-x}", "1"),
        ("${A:+y}", "y"),
        ("${N:+y}", ""),
        ("$N", ""),
    ],
)
def test_variables(text: str, expanded: str) -> None:
    assert expand(text, {"A": "1"}) == expanded


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "FROM is missing"),
        ("RUN true", "line 1: RUN before FROM"),
        ("FROM a\nFROM b", "line 2: a second stage"),
        ("FROM a\nINSTALL b", "line 2: the instruction INSTALL is not known"),
        ("FROM a\nRUN cat <<X\nno end", "line 2: the here-document has no end: X is missing"),
        ("FROM a\nCOPY --from=build a b", "line 2: COPY --from is not supported"),
        ("FROM a\nADD https://example.org/a b", "line 2: ADD from the network"),
        ("FROM a\nCOPY a", "line 2: COPY needs a source and a target"),
    ],
)
def test_what_is_not_supported_is_refused_with_its_line(text: str, told: str) -> None:
    with pytest.raises(DockerfileError, match=told):
        parse_copy(parse(text).steps[0])
