"""No process that is killed, and no error, leaves a file that was being written empty or cut short."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic_ai.capabilities import Toolset
from pydantic_ai.exceptions import ModelRetry

from tests.agent.work import call, use
from tests.journal.support import in_a_child
from wane.agent.tools import toolset
from wane.agent.tools.toolset import WHOLE, WholeFiles, coding_tools, protected_pattern
from wane.replacing import replace_file

posix_only = pytest.mark.skipif(os.name == "nt", reason="needs POSIX modes, links and signals")


def file_tools(directory: Path) -> WholeFiles:
    capabilities = coding_tools(directory, 80_000).capabilities
    (found,) = (it.toolset for it in capabilities if isinstance(it, Toolset) and isinstance(it.toolset, WholeFiles))
    return found


@posix_only
def test_a_process_that_is_killed_while_it_writes_leaves_the_file_whole(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a = 1\n")
    stream, _ = file_tools(tmp_path).open_write(tmp_path / "a.py", read_back=True, create=False)

    def write() -> None:
        with stream:
            stream.truncate(0)
            stream.write(b"a =")
            stream.flush()
            os.kill(os.getpid(), signal.SIGKILL)

    in_a_child(write)
    assert (tmp_path / "a.py").read_text() == "a = 1\n"


def test_content_that_cannot_be_written_leaves_the_file_whole(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a = 1\n")
    tools = file_tools(tmp_path)
    with pytest.raises((ModelRetry, UnicodeEncodeError)):
        asyncio.run(tools.edit_file("a.py", "1", "'\ud800'"))
    with pytest.raises((ModelRetry, UnicodeEncodeError)):
        asyncio.run(tools.write_file("a.py", "\ud800"))
    assert (tmp_path / "a.py").read_text() == "a = 1\n"
    assert os.listdir(tmp_path) == ["a.py"]


@posix_only
def test_a_file_keeps_its_mode_its_links_and_its_place_behind_a_link(tmp_path: Path) -> None:
    script, other, link = tmp_path / "run.sh", tmp_path / "other", tmp_path / "link"
    script.write_text("echo 1\n")
    script.chmod(0o751)
    link.symlink_to(script)
    use(tmp_path, [call("edit_file", path="link", old_text="1", new_text="2")])
    assert link.is_symlink()
    assert script.read_text() == "echo 2\n"
    assert script.stat().st_mode & 0o777 == 0o751
    os.link(script, other)
    use(tmp_path, [call("write_file", path="run.sh", content="echo 3\n")])
    assert other.read_text() == "echo 3\n"
    assert sorted(os.listdir(tmp_path)) == ["link", "other", "run.sh"]


@posix_only
@pytest.mark.skipif(os.name != "nt" and os.geteuid() == 0, reason="root may write everywhere")
def test_a_file_in_a_directory_that_cannot_be_written_is_written_in_place(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a = 1\n")
    tmp_path.chmod(0o555)
    replace_file(tmp_path / "a.py", b"a = 2\n")
    assert (tmp_path / "a.py").read_text() == "a = 2\n"


def test_a_new_file_is_written(tmp_path: Path) -> None:
    use(tmp_path, [call("write_file", path="new.py", content="x = 1\n")])
    replace_file(tmp_path / "newer.py", b"x = 2\n")
    assert [(tmp_path / name).read_text() for name in ("new.py", "newer.py")] == ["x = 1\n", "x = 2\n"]


@posix_only
def test_what_is_no_file_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    # A device of the machine would be gone for everyone; making one takes privileges, a pipe takes none.
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        replace_file(pipe, b"x = 1\n")
        assert os.read(reader, 100) == b"x = 1\n"
    finally:
        os.close(reader)
    assert pipe.is_fifo()


@pytest.mark.parametrize(
    ("path", "protected"),
    [
        (".git/config", True),
        ("sub/.git/hooks/post-commit", True),
        ("sub/.GIT/config", True),
        (".git", True),
        ("a/.env", True),
        ("a/.ENV", True),
        ("a/server.KEY", True),
        ("k.PEM", True),
        ("x.keystore", True),
        (".envrc", True),
        ("a/.netrc", True),
        (".pgpass", True),
        ("SECRETS.toml", True),
        (".Env.local", True),
        ("sub/ID_RSA", True),
        ("a/server.pem", True),
        ("config/secrets.yaml", True),
        ("config/secrets/a", True),
        ("a/.gitignore", False),
        ("a/keys.py", False),
        ("a/environment.py", False),
    ],
)
def test_repositories_keys_and_secrets_are_protected_wherever_they_are(path: str, protected: bool) -> None:
    assert (protected_pattern(path) is not None) == protected


@pytest.mark.parametrize("with_ripgrep", [True, False])
def test_secrets_are_not_read_listed_or_searched(tmp_path: Path, with_ripgrep: bool) -> None:
    for name in (".env", "server.key", ".env.example", "plain.txt"):
        (tmp_path / name).write_text("mark-of-a-secret\n" if "example" not in name else "mark-of-an-example\n")
    (tmp_path / "plain.txt").write_text("mark-of-a-text\n")
    (tmp_path / "link.txt").symlink_to(tmp_path / "server.key")
    search, listing = ("grep", "list_files") if with_ripgrep else ("search_files", "find_files")
    refused, over_link, example, searched, within = use(
        tmp_path,
        [call("read_file", path=".env")],
        [call("read_file", path="link.txt")],
        [call("read_file", path=".env.example")],
        [call(search, pattern="mark-of")],
        [call(search, pattern="mark-of", path="server.key")],
        with_ripgrep=with_ripgrep,
    )
    assert "run `cat .env`" in refused
    assert "run `cat server.key`" in over_link
    assert "mark-of-an-example" in example
    assert "plain.txt" in searched
    assert "mark-of-a-secret" not in f"{refused}{over_link}{searched}{within}"
    (listed,) = use(tmp_path, [call(listing, **({} if with_ripgrep else {"pattern": "*"}))], with_ripgrep=with_ripgrep)
    assert "plain.txt" in listed
    assert "server.key" not in listed


@pytest.mark.parametrize("with_ripgrep", [True, False])
def test_what_is_in_git_is_not_read_listed_or_searched(tmp_path: Path, with_ripgrep: bool) -> None:
    (tmp_path / "b.git" / "objects").mkdir(parents=True)
    (tmp_path / "b.git" / "HEAD").touch()
    for name in (".git/config", "sub/.git/credentials", ".git-credentials", "b.git/config"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("url = https://me:mark-of-a-secret@example.org/a.git\n")
    (tmp_path / "link.txt").symlink_to(tmp_path / ".git" / "config")
    (tmp_path / "linked").symlink_to(tmp_path / ".git")
    search = "grep" if with_ripgrep else "search_files"
    refused, *others = use(
        tmp_path,
        [call("read_file", path=".git/config")],
        [call("read_file", path="sub/.git/credentials")],
        [call("read_file", path=".git-credentials")],
        [call("read_file", path="link.txt")],
        [call("read_file", path="b.git/config")],
        [call(search, pattern="mark-of")],
        [call("read_file", path="linked/config")],
        [call(search, pattern="mark-of", path=".git")],
        [call(search, pattern="mark-of", path="sub/.git/credentials")],
        [call(search, pattern="mark-of", path="linked")],
        with_ripgrep=with_ripgrep,
    )
    assert "run `cat .git/config`" in refused
    assert "mark-of-a-secret" not in f"{refused}{others}"


def test_protected_files_are_not_written(tmp_path: Path) -> None:
    (tmp_path / "sub" / ".git").mkdir(parents=True)
    (tmp_path / "alias").symlink_to(tmp_path / "sub" / ".git")
    for path in ("sub/.git/mark", "alias/mark", "sub/.env", "k.PEM", "sub/x.keystore", ".Env.local"):
        (refused,) = use(tmp_path, [call("write_file", path=path, content="x")])
        assert "is protected" in refused
    assert not (tmp_path / "sub" / ".git" / "mark").exists()
    (made,) = use(tmp_path, [call("create_directory", path="new/.git")])
    assert "is protected" in made


def test_a_file_that_cannot_be_written_does_not_stay_empty(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")

    def write() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, 1_000))
        (result,) = use(tmp_path, [call("write_file", path="new.txt", content="x" * 5_000)])
        assert "File too large" in result

    assert in_a_child(write) == ""
    assert os.listdir(tmp_path) == []


def test_a_large_file_is_read_by_pieces(tmp_path: Path) -> None:
    lines = [f"line {number} ü\n" for number in range(700_000)]
    (tmp_path / "large.txt").write_text("".join(lines) + "x" * 100_000 + "\nlast", encoding="utf-8")
    assert (tmp_path / "large.txt").stat().st_size > WHOLE
    first, middle, long, last, behind = use(
        tmp_path,
        [call("read_file", path="large.txt", limit=2)],
        [call("read_file", path="large.txt", offset=500_000, limit=1)],
        [call("read_file", path="large.txt", offset=700_000)],
        [call("read_file", path="large.txt", offset=700_001)],
        [call("read_file", path="large.txt", offset=700_002)],
    )
    head = "[large.txt | 700,002 lines]\n"
    more = "... (700,000 more lines. Use offset=2 to continue reading.)\n"
    assert first == f"{head}     1\tline 0 ü\n     2\tline 1 ü\n{more}"
    assert "500001\tline 500000 ü\n" in middle
    assert "Line 700001 has 100,001 bytes" in long
    assert last == f"{head}700002\tlast"
    assert "behind the end" in behind


@pytest.mark.parametrize("ending", [b"", b"\n"])
@pytest.mark.parametrize("block", [1, 3, 7, 1_000])
def test_a_page_is_the_lines_that_it_says(
    block: int, ending: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolset, "_BLOCK", block)
    path = tmp_path / "lines.txt"
    lines = ["", "one", "", "x" * 40, "two", "", "é"]
    path.write_bytes("\n".join(lines).encode() + ending)
    for offset in range(len(lines) + 2):
        header, *page = toolset.read_page(path, offset, 2, 30).splitlines()
        assert header == "7 lines]"
        fitting = [(number + 1, line) for number, line in enumerate(lines)][offset : offset + 2]
        if offset >= len(lines):
            assert page == [f"... (Offset {offset} is behind the end.)"]
            continue
        if offset == 3:
            size = 41
            assert page == [f"... (Line 4 has {size} bytes and does not fit. offset=4 skips it.)"]
            continue
        shown = [f"{number:>6}\t{line}" for number, line in fitting if len(line) < 30]
        rest = len(lines) - offset - len(shown)
        more = [f"... ({rest} more lines. Use offset={offset + len(shown)} to continue reading.)"] if rest else []
        assert page == shown + more


READS = """
import resource, sys
from pathlib import Path
from wane.agent.tools.toolset import read_page
resource.setrlimit(resource.RLIMIT_DATA, (600_000_000, 600_000_000))
print(read_page(Path(sys.argv[1]), 0, 1, 1_000))
"""


def test_reading_takes_no_memory_of_the_files_size(tmp_path: Path) -> None:
    path = tmp_path / "huge.txt"
    with path.open("wb") as stream:
        stream.write(b"line\n" * 2_000)
        stream.truncate(1_500_000_000)
    done = subprocess.run([sys.executable, "-c", READS, str(path)], capture_output=True, text=True, check=True)
    assert "2,001 lines" in done.stdout
