from __future__ import annotations

import pytest

from wane_research.evaluation.sandbox.dockerfile import (
    Dockerfile,
    DockerfileError,
    assignments,
    command,
    expand,
    flags_of,
    parse,
    parse_copy,
    shell_of,
)

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
RUN --mount=type=cache,target=/x --mount=type=tmpfs,target=/y <<EOF
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
    (found,) = parse(WHOLE).stages
    assert found.base == "python:3.13-slim"
    words = [step.word for step in found.steps]
    assert words == ["WORKDIR", "ENV", "ENV", "RUN", "COPY", "COPY", "RUN", "RUN", "COPY"]
    env, old, apt, two, quoted, script, cat, here = found.steps[1:]
    assert assignments(env, {"A": "0"}) == {"A": "1", "B": "two words", "C": "1"}
    assert assignments(old, {}) == {"OLD": "the whole rest"}
    assert " ".join(command(apt).split()) == "apt-get update && apt-get install -y curl && rm -rf /var/lib/apt"
    assert parse_copy(two) == (("one.txt", "two.txt"), "/data/")
    assert flags_of(two) == {"chown": "root"}
    assert parse_copy(quoted) == (("with space.txt",), "/app/")
    assert command(script) == 'set -e\necho "$HOME" # kept\n'
    assert command(cat) == "cat <<'END' > /app/file && echo done\n indented\nEND\n"
    assert parse_copy(here) == ((), "/app/here.txt")
    (document,) = here.documents
    assert (document.name, document.text, document.is_quoted) == ("THERE", "dedented\n", False)


def test_here_documents_may_have_dots_in_their_names_and_be_several() -> None:
    text = "FROM a\nCOPY <<one.txt plain <<'two' /data/\n$A\none.txt\n$B\ntwo\nUSER x"
    copy, user = parse(text).stages[0].steps
    assert user.word == "USER"
    assert parse_copy(copy) == (("plain",), "/data/")
    assert [(document.name, document.text, document.is_quoted) for document in copy.documents] == [
        ("one.txt", "$A\n", False),
        ("two", "$B\n", True),
    ]
    (run,) = parse("FROM a\nRUN cat <<A >/a && cat <<-'B' >/b\n1\nA\n\t2\nB").stages[0].steps
    assert command(run) == "cat <<A >/a && cat <<-'B' >/b\n1\nA\n2\nB\n"


@pytest.mark.parametrize(
    "script", ['echo "$((1<<2))"', "echo $((1<<2)) $((1 <<2))", "cat <<<word", "cat <<< word", 'echo "a <<EOF b"']
)
def test_what_looks_like_a_here_document_is_none(script: str) -> None:
    (run, user) = parse(f"FROM a\nRUN {script}\nUSER x").stages[0].steps
    assert (command(run), user.text) == (script, "x")


def test_a_command_as_a_list_is_quoted() -> None:
    (step,) = parse('FROM a\nRUN ["echo", "a b"]').stages[0].steps
    assert command(step) == "echo 'a b'"
    (test,) = parse("FROM a\nRUN [ -e /x ] || mkdir /x").stages[0].steps
    assert command(test) == "[ -e /x ] || mkdir /x"


def test_arguments_take_defaults_and_what_is_known() -> None:
    one, two = parse("ARG V=1\nFROM a:$V\nARG V\nARG W=x$V").stages[0].steps
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
        (r"\$A", "$A"),
    ],
)
def test_variables(text: str, expanded: str) -> None:
    assert expand(text, {"A": "1"}) == expanded


STAGES = """
ARG OS=debian
FROM --platform=linux/amd64 $OS:1 AS Tools
RUN make tools
FROM unused:1 AS unused
COPY --from=picture:1 /a /a
FROM tools AS build
COPY --from=seed:1 --chown=1:2 /seed /seed
RUN make
FROM plain:1
COPY --from=build /made /made
COPY --from=0 /tools /tools
COPY --from=uv:2 /uv /bin/
"""


def test_stages_that_the_last_one_needs() -> None:
    described = parse(STAGES)

    assert [(stage.name, stage.base, len(stage.steps)) for stage in described.stages] == [
        ("tools", "debian:1", 1),
        ("unused", "unused:1", 1),
        ("build", "tools", 2),
        ("", "plain:1", 3),
    ]
    assert described.needed_stages() == [0, 2, 3]
    assert described.needed_images() == (["debian:1", "plain:1"], ["seed:1", "uv:2"])
    assert [described.find_base(number) for number in range(4)] == [None, None, 0, None]


def test_a_name_means_the_nearest_earlier_stage_and_a_number_only_an_earlier_one() -> None:
    described = parse("FROM a AS one\nFROM one AS one\nFROM ONE\nCOPY --from=One /a /a\nCOPY --from=7 /a /a")

    assert [described.find_base(number) for number in range(3)] == [None, 0, 1]
    assert described.needed_stages() == [0, 1, 2]
    assert described.needed_images() == (["a"], ["7"])


def test_the_shell_of_later_commands() -> None:
    shell, _ = parse('FROM a\nSHELL ["/bin/bash", "-o", "pipefail", "-c"]\nRUN x').stages[0].steps
    assert shell_of(shell) == ["/bin/bash", "-o", "pipefail", "-c"]


def read_all(described: Dockerfile) -> None:
    for stage in described.stages:
        for step in stage.steps:
            {"COPY": parse_copy, "ADD": parse_copy, "RUN": command, "SHELL": shell_of}[step.word](step)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "FROM is missing"),
        ("RUN true", "line 1: RUN before FROM"),
        ("FROM a\nFROM b c", "line 2: FROM needs an image, and AS before a name"),
        ("FROM", "line 1: FROM needs an image"),
        ("FROM a\nINSTALL b", "line 2: the instruction INSTALL is not known"),
        ("FROM a\nRUN cat <<X\nno end", "line 2: the here-document has no end: X is missing"),
        ("FROM a\nADD https://example.org/a b", "line 2: ADD from the network"),
        ("FROM a\nADD git@example.org:a.git /b", "line 2: ADD from the network"),
        ("FROM a\nADD --unpack=false a.tar /b", "line 2: ADD --unpack is not supported"),
        ("FROM a\nCOPY a", "line 2: COPY needs a source and a target"),
        ("FROM a\nCOPY --parents a b /c/", "line 2: COPY --parents is not supported"),
        ("FROM a\nRUN --mount=type=bind,target=/x true", "line 2: RUN --mount=type=bind is not supported"),
        ("FROM a\nRUN --mount=target=/x --mount=type=cache,target=/y true", "line 2: RUN --mount=type=bind"),
        ("FROM a\nRUN --mount=type=secret,id=x true", "line 2: RUN --mount=type=secret is not supported"),
        ("FROM a\nSHELL bash -c", "line 2: SHELL needs a list"),
    ],
)
def test_what_is_not_supported_is_refused_with_its_line(text: str, told: str) -> None:
    with pytest.raises(DockerfileError, match=told):
        read_all(parse(text))
