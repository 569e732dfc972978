"""Namespaces for real: they need Linux, and root or user namespaces, so these are no tests of `make test`."""

from __future__ import annotations

import asyncio
import gzip
import io
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest
from research.tests.evaluation.machines import IMAGE, make_base

import wane
import wane_research
from wane_research.evaluation.sandbox.dockerfile import DockerfileError
from wane_research.evaluation.sandbox.image import build
from wane_research.evaluation.sandbox.namespace import (
    SEARCH_PATH,
    Mount,
    Namespace,
    Network,
    SandboxError,
    get_directory,
    get_file,
    missing,
    put_directory,
    put_file,
    write_shared,
)

pytestmark = [pytest.mark.full, pytest.mark.skipif(bool(missing()), reason=missing() or "there")]


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bases")
    root = make_base(folder)

    try:
        with start_space([root], tmp_path_factory.mktemp("first")):
            pass
    except SandboxError as error:
        pytest.skip(f"namespaces or overlays are not allowed here: {error}")
    return folder


class Space:
    """A namespace whose commands can be run one by one, without `await`."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self.namespace = Namespace()
        self.run = runner.run

    def run_script(self, script: str, **options: Any) -> str:
        """What a script printed, with its exit code at the end."""
        done = self.run(self.namespace.run(["bash", "-c", script], **options))
        return f"{done.output}[{done.code}]"


@contextmanager
def start_space(layers: Sequence[Path], home: Path, *mounts: Mount, network: Network = "host") -> Iterator[Space]:
    with asyncio.Runner() as runner:
        space = Space(runner)
        runner.run(space.namespace.up(layers, home, mounts, network=network))
        try:
            yield space
        finally:
            runner.run(space.namespace.down())


@pytest.fixture
def inside(bases: Path, tmp_path: Path) -> Callable[..., AbstractContextManager[Space]]:
    return partial(start_space, [bases / IMAGE], tmp_path / "home")


def test_commands_see_their_own_root_processes_and_environment(inside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_HOST", "seen")

    with inside() as space:
        assert (
            space.run_script("ls /; pwd; id -u")
            == "bin\ndev\netc\nlib\nlib64\nproc\nroot\nsys\ntmp\nusr\nvar\n/\n0\n[0]"
        )
        # Those of the namespace alone: its first process, its watcher and its sleep; bash and ls.
        assert int((space.run_script("ls -d /proc/[0-9]* | wc -l")).split("\n")[0]) < 9
        assert space.run_script("echo $OF_THE_HOST$MINE; exit 3", env={"MINE": "mine"}, cwd="/tmp") == "mine\n[3]"
        assert space.run_script("id -u; id -g", user="user") == "1000\n1000\n[0]"
        assert space.run_script("echo x >/dev/null; head -c 3 /dev/zero | wc -c; echo on >&2") == "3\non\n[0]"


def test_what_it_changes_stays_above_its_root(inside, bases: Path, tmp_path: Path) -> None:
    with inside() as space:
        space.run_script("echo new >/etc/new; rm /etc/group")
    assert not (bases / IMAGE / "etc" / "new").exists()
    assert (bases / IMAGE / "etc" / "group").exists()
    assert (tmp_path / "home" / "upper" / "etc" / "new").read_text() == "new\n"


def test_signals_are_as_usual_even_where_they_are_ignored(inside) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with inside() as space:
            # 2 is SIGINT: a bit of this mask.
            ignored = space.run_script("grep SigIgn /proc/self/status")
            assert int(ignored.split()[1].split("[")[0], 16) & (1 << (signal.SIGINT - 1)) == 0
    finally:
        signal.signal(signal.SIGINT, before)


def test_what_is_left_in_the_background_holds_nothing_up_and_lives_on(inside) -> None:
    with inside() as space:
        assert space.run_script("sleep 1000 & echo $! >/tmp/pid; echo begun") == "begun\n[0]"
        assert space.run_script("kill -0 $(cat /tmp/pid) && echo alive") == "alive\n[0]"
        # Its parent is gone, and the first process must let go of it when it ends.
        space.run_script("kill $(cat /tmp/pid)")
        for _ in range(200):
            if space.run_script("test -e /proc/$(cat /tmp/pid) || echo gone") == "gone\n[0]":
                return
            time.sleep(0.05)
        pytest.fail("a process that has ended is still there")


def test_a_command_that_takes_too_long_is_killed(inside) -> None:
    with inside() as space:
        with pytest.raises(TimeoutError):
            space.run_script("sleep 1000", timeout=0.3)
        assert space.run_script("echo still here") == "still here\n[0]"


def test_mounts_can_be_read_only(inside, tmp_path: Path) -> None:
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
    (tmp_path / "ours" / "a").write_text("a")

    with inside(Mount(tmp_path / "ours", "/opt/ours", read_only=True), Mount(tmp_path / "theirs", "/theirs")) as space:
        assert "Read-only" in space.run_script("cat /opt/ours/a; echo b >/opt/ours/a")
        assert space.run_script("echo b >/theirs/b") == "[0]"
    assert (tmp_path / "theirs" / "b").read_text() == "b\n"


def test_root_reaches_no_device_of_the_machine_and_mounts_nothing(inside, bases: Path) -> None:
    mode = os.stat("/dev/null").st_mode
    bundle = Mount(bases / IMAGE, "/opt/bundle", read_only=True)

    with inside(bundle) as space:
        # Each would succeed for the machine's root.
        for attempt in (
            "mknod /tmp/disk b 8 0",
            "mknod /tmp/mem c 1 1",
            "mkdir -p /mnt && mount -t devtmpfs devtmpfs /mnt",
            "mount -t tmpfs tmpfs /tmp",
            "mount -o remount,bind,rw /opt/bundle",
            "umount /opt/bundle",
            "touch /opt/bundle/changed",
            "chmod 600 /dev/null",
            "chown 1000 /dev/zero",
            "rm -f /dev/null && mknod /dev/null c 1 3",
            "echo 1 >/proc/sys/vm/drop_caches",
            "echo h >/proc/sysrq-trigger",
            "ls /proc/1/root/",
        ):
            output, _, code = (space.run_script(f"{attempt} 2>&1")).rpartition("[")
            assert code != "0]", f"{attempt}: {output}"
        # What tasks need as in a container.
        assert space.run_script("chown 1000 /tmp && chmod 1777 /tmp && mkdir /tmp/x && echo x >/dev/null") == "[0]"
        assert space.run_script("id -u", user="user") == "1000\n[0]"
    assert os.stat("/dev/null").st_mode == mode


SPY = """#!/bin/bash
while read -r name value; do
    case $name in CapPrm:|CapBnd:) echo "$value" >>/tmp/capabilities ;; esac
done </proc/self/status
exec "/bin/real-${0##*/}" "$@"
"""


def test_no_program_of_its_root_runs_with_the_capabilities_of_the_machine(tmp_path: Path) -> None:
    base = make_base(tmp_path / "bases")
    spied = ("cat", "env", "mkdir", "mount", "mv", "rmdir", "setpriv", "sleep", "umount")
    for name in spied:
        if (program := base / "bin" / name).exists():
            program.rename(program.with_name(f"real-{name}"))
        program.write_text(SPY)
        program.chmod(0o755)

    with start_space([base], tmp_path / "home", Mount(tmp_path, "/logs"), network="none") as space:
        space.run_script("for p in /proc/[0-9]*; do [ ${p#/proc/} = $$ ] || kill ${p#/proc/}; done; sleep 0.5")
        space.run(put_file(space.namespace, Path(__file__), "/tmp/file"))
        bounds = sorted(set((space.run_script("real-cat /tmp/capabilities")).split()))
        assert bounds == ["00000000a00425fb", "[0]"]
        # The shells in which commands run, as in CVE-2019-5736.
        evil = "printf '#!/proc/self/exe\\n' >/tmp/evil; chmod +x /tmp/evil; cp /tmp/evil /bin/sh.new"
        space.run_script(f"{evil}; real-mv /bin/sh.new /bin/sh")
        assert space.run_script("echo started") == "started\n[0]"
        space.run_script("real-mv /tmp/evil /bin/bash")
        assert space.run_script("echo started") == "there is no shell, or it is a script\n[125]"


def test_what_the_root_links_to_outside_stays_as_it_is(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in ("proc", "logs"):
        base = make_base(tmp_path / name)
        with suppress(FileNotFoundError):
            (base / name).rmdir()
        (base / name).symlink_to(outside)
        mount = Mount(tmp_path, "/logs/agent")
        with pytest.raises(SandboxError, match=f"/{name}.* is a link out of the root file system"):
            asyncio.run(Namespace().up([base], tmp_path / f"home-{name}", [mount], network="none"))
    assert not list(outside.iterdir())


def test_a_program_that_is_killed_says_so(inside) -> None:
    with inside() as space:
        assert [space.run_script(script) for script in ("kill -KILL $$", "kill -TERM $$", "exit 7")] == [
            "[-9]",
            "[-15]",
            "[7]",
        ]
        assert "no user nobody-here" in space.run_script("echo", user="nobody-here")
        assert "[2]" in space.run_script("echo", cwd="/nowhere")


@pytest.mark.skipif(shutil.which("slirp4netns") is None, reason="slirp4netns is not installed")
@pytest.mark.skipif(not Path("/dev/net/tun").exists(), reason="there is no /dev/net/tun")
def test_network_of_its_own_leaves_the_machines_loopback_and_its_ports_alone(inside) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        connect = f"exec 3<>/dev/tcp/127.0.0.1/{port} 2>&1 && echo connected"
        script = f"{connect}; grep -c : /proc/net/dev; cat /etc/resolv.conf"
        with inside() as space:
            assert space.run_script(script).startswith("connected\n")
        with inside(network="own") as space:
            own = space.run_script(script)
    assert "connected" not in own
    assert own.endswith("2\nnameserver 10.0.2.3\n[0]"), own  # lo and tap0


def test_network_of_its_own_names_what_it_needs(inside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SandboxError, match="needs slirp4netns"), inside(network="own"):
        pass


def test_network_is_the_hosts_or_none(inside) -> None:
    with inside(network="none") as space:
        assert space.run_script("cut -d: -f1 /proc/net/dev | tail -n +3 | tr -d ' ' | sort") == "lo\n[0]"


def test_files_go_in_and_out(inside, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "deep").mkdir(parents=True)
    (source / "deep" / "script").write_text("#!/bin/sh\necho it runs\n")
    (source / "deep" / "script").chmod(0o755)

    with inside() as space:
        space.run(put_directory(space.namespace, source, "/data/in"))
        space.run(put_file(space.namespace, source / "deep" / "script", "/data/one"))
        assert space.run_script("/data/in/deep/script; /data/one") == "it runs\nit runs\n[0]"
        space.run(get_directory(space.namespace, "/data", tmp_path / "out"))
        space.run(get_file(space.namespace, "/data/one", tmp_path / "one"))
        with pytest.raises(FileNotFoundError):
            space.run(get_file(space.namespace, "/data/none", tmp_path / "none"))
    assert (tmp_path / "out" / "in" / "deep" / "script").read_text() == (tmp_path / "one").read_text()
    assert not (tmp_path / "none").exists()


def test_what_is_written_beside_a_task_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "result.json").symlink_to(tmp_path / "precious")
    (tmp_path / "precious").write_text("kept")
    for text in ("one", "two"):
        write_shared(tmp_path / "result.json", text)
    assert [(tmp_path / name).read_text() for name in ("result.json", "precious")] == ["two", "kept"]


def test_a_dockerfile_is_built_once(bases: Path, tmp_path: Path) -> None:
    context = tmp_path / "context"
    context.mkdir()
    (context / "data.txt").write_text("data\n")
    (context / "Dockerfile").write_text(
        f"FROM {IMAGE}\nARG WHO=world\nENV GREETING=hello\nWORKDIR /app\nCOPY data.txt copied.txt\nCOPY . /all/\n"
        'RUN <<END\necho "$GREETING $WHO" >greeting\ndate +%N >when\nEND\n'
    )

    def contents() -> str:
        layer = asyncio.run(build(context, bases, tmp_path / "cache"))
        with start_space(layer.folders, tmp_path / "home") as space:
            script = "echo $GREETING$WHO; cat greeting copied.txt when; ls /all"
            return space.run_script(script, cwd=layer.setting.workdir, env=layer.setting.env)

    first = contents()
    hello, greeting, data, when, *listed = first.split("\n")
    assert (hello, greeting, data, listed) == ("hello", "hello world", "data", ["Dockerfile", "data.txt", "[0]"])
    assert contents() == first
    (context / "data.txt").write_text("other\n")
    assert when not in contents()


def test_a_step_that_fails_is_told_and_leaves_no_layer(bases: Path, tmp_path: Path) -> None:
    context = tmp_path / "context"
    context.mkdir()
    (context / "Dockerfile").write_text(f"FROM {IMAGE}\nRUN echo because >&2; exit 7\n")
    for _ in range(2):
        with pytest.raises(SandboxError, match=r"(?s)line 2: ended with 7.*because"):
            asyncio.run(build(context, bases, tmp_path / "cache"))
    (context / "Dockerfile").write_text("FROM nowhere:1\n")
    with pytest.raises(SandboxError, match=f"no root file system for the image nowhere:1.*available: {IMAGE}"):
        asyncio.run(build(context, bases, tmp_path / "cache"))


STAGES = f"""
FROM {IMAGE} AS tools
WORKDIR /made
ENV STAGE=tools
RUN mkdir -p deep/er && echo one >deep/er/one && echo two >two && chmod 751 two && chown 1000:1000 two
RUN ln -s deep/er linked && ln -s /etc/passwd absolute && ln -s /etc link-out
RUN rm /etc/group && echo tool >/bin/tool && chmod 755 /bin/tool

FROM nowhere:1 AS unused
RUN exit 7

FROM tools AS more
RUN echo "$STAGE in $PWD" >told && rm two && echo new >two

FROM {IMAGE}
COPY --from=tools /made /all
COPY --from=tools /made/linked /made/absolute /picked/
COPY --from=0 /made/two /two
COPY --from=more /made/t* /more/
COPY --from=more --chown=user:root --chmod=600 /made/told /mine
COPY --from=pictures/seed:1 /seed.txt /seed
COPY --chown=1000 --chmod=640 <<EOF /note
noted
EOF
COPY own.txt /own
RUN echo "[$STAGE]" >/stage; test ! -e /bin/tool; cat /etc/group >/groups
"""


def test_a_dockerfile_of_several_stages(bases: Path, tmp_path: Path) -> None:
    context = tmp_path / "context"
    context.mkdir()
    (context / "Dockerfile").write_text(STAGES)
    (context / "own.txt").write_text("own\n")
    os.chown(context / "own.txt", 1234, 1234)
    # An image that only gives files needs no programs.
    seed = bases / "pictures" / "seed:1"
    seed.mkdir(parents=True)
    (seed / "seed.txt").symlink_to("/real")
    (seed / "real").write_text("seed\n")

    layer = asyncio.run(build(context, bases, tmp_path / "cache"))
    with start_space(layer.folders, tmp_path / "home") as space:
        script = "cat /all/deep/er/one /picked/one /two /more/two /more/told /mine /seed /note /own /stage"
        assert space.run_script(script) == (
            "one\none\ntwo\nnew\ntools in /made\ntools in /made\nseed\nnoted\nown\n[]\n[0]"
        )
        # A link is followed where it is named, within its own root, and stays a link in a folder.
        links = "readlink /all/linked /all/absolute; tail -n 1 /picked/absolute; cat /groups"
        assert space.run_script(links) == (
            "deep/er\n/etc/passwd\nuser:x:1000:1000::/tmp:/bin/bash\nroot:x:0:\nuser:x:1000:\n[0]"
        )
        shown = space.run_script("find /two /all/two /mine /note /own -printf '%m %U:%G %p\\n'")
    assert shown.splitlines()[:5] == [
        "751 1000:1000 /two",
        "751 1000:1000 /all/two",
        "600 1000:0 /mine",
        "640 1000:1000 /note",
        f"{(context / 'own.txt').stat().st_mode & 0o777:o} 0:0 /own",
    ]
    # Of the stages only what the image is made of stays.
    assert [path.name for path in layer.folders[0].parents[1].glob("stage*")] == ["stage3"]


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ("COPY --from=absent:1 /a /a", "no root file system for the image absent:1"),
        ("COPY --from=first /a* /a/", "line 3: there is no /a. to copy"),
        ("COPY --from=first /etc/../../../here /a", "line 3: there is no .* to copy"),
        ("COPY --chown=nobody-here Dockerfile /a", "line 3: there is no nobody-here in /etc/passwd"),
    ],
)
def test_what_cannot_be_copied_is_named(bases: Path, tmp_path: Path, steps: str, told: str) -> None:
    (tmp_path / "here").write_text("of the machine")
    (tmp_path / "Dockerfile").write_text(f"FROM {IMAGE} AS first\nFROM {IMAGE}\n{steps}\n")
    with pytest.raises(SandboxError, match=told):
        asyncio.run(build(tmp_path, bases, tmp_path / "cache"))


def test_a_stage_cannot_lead_a_copy_out_of_its_root_or_run_there(bases: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of the machine")
    context = tmp_path / "context"
    context.mkdir()
    (context / "Dockerfile").write_text(
        f"FROM {IMAGE} AS first\nRUN ln -s {secret} /direct && ln -s /../../../../../.. /up && mkdir -p /taken\n"
        f"RUN rm /bin/tar && printf '#!/bin/bash\\necho >/taken/ran\\n' >/bin/tar && chmod 755 /bin/tar\n"
        f"FROM {IMAGE}\nCOPY --from=first /up{secret} /stolen\n"
    )
    with pytest.raises(SandboxError, match="to copy"):
        asyncio.run(build(context, bases, tmp_path / "cache"))
    (context / "Dockerfile").write_text((context / "Dockerfile").read_text().replace(f"/up{secret}", "/direct"))
    with pytest.raises(SandboxError, match="No such file"):
        asyncio.run(build(context, bases, tmp_path / "cache"))
    (context / "Dockerfile").write_text(
        (context / "Dockerfile").read_text().replace("/direct /stolen", "/taken /taken")
    )
    layer = asyncio.run(build(context, bases, tmp_path / "cache"))
    with start_space(layer.folders, tmp_path / "home") as space:
        assert space.run_script("ls -a /taken") == ".\n..\n[0]"


def pack(archive: Path, texts: dict[str, str], mode: Literal["w", "w:gz", "w:bz2", "w:xz"]) -> None:
    with tarfile.open(archive, mode) as written:
        for name, text in texts.items():
            member = tarfile.TarInfo(name)
            member.size, member.uid, member.gid, member.mode = len(text), 1000, 1000, 0o640
            written.addfile(member, io.BytesIO(text.encode()))


def test_added_archives_are_unpacked_by_what_is_in_them(bases: Path, tmp_path: Path) -> None:
    context = tmp_path / "context"
    context.mkdir()
    pack(context / "plain.tar", {"deep/plain": "plain\n"}, "w")
    pack(context / "no-suffix", {"gz": "gz\n"}, "w:gz")
    pack(context / "two.tar.bz2", {"bz2": "bz2\n"}, "w:bz2")
    pack(context / "three.txz", {"xz": "xz\n"}, "w:xz")
    (context / "one.gz").write_bytes(gzip.compress(b"no archive"))
    (context / "none.tar").write_text("no archive\n")
    (context / "zeros.tar").write_bytes(bytes(1024))
    (context / "Dockerfile").write_text(
        f"FROM {IMAGE}\nADD plain.tar /one\nADD --chown=0:0 no-suffix two.tar.bz2 three.txz none.tar zeros.tar /many/\n"
        "ADD one.gz /file\nCOPY plain.tar /copied/\n"
    )

    layer = asyncio.run(build(context, bases, tmp_path / "cache"))
    with start_space(layer.folders, tmp_path / "home") as space:
        script = "find /one /many /file /copied -type f -printf '%p %m %U:%G %s\n' | sort"
        plain = (context / "plain.tar").stat()
        mode = f"{plain.st_mode & 0o777:o}"
        assert space.run_script(script).splitlines() == [
            f"/copied/plain.tar {mode} 0:0 {plain.st_size}",
            f"/file {mode} 0:0 {(context / 'one.gz').stat().st_size}",
            "/many/bz2 640 0:0 4",
            "/many/gz 640 0:0 3",
            f"/many/none.tar {mode} 0:0 11",
            "/many/xz 640 0:0 3",
            f"/many/zeros.tar {mode} 0:0 1024",
            "/one/deep/plain 640 1000:1000 6",
            "[0]",
        ]
    (context / "four.tar.zst").write_bytes(b"\x28\xb5\x2f\xfd....")
    (context / "Dockerfile").write_text(f"FROM {IMAGE}\nADD four.tar.zst /four\n")
    with pytest.raises(DockerfileError, match="line 2: ADD of a file that Zstandard compressed is not supported"):
        asyncio.run(build(context, bases, tmp_path / "cache"))


def test_here_documents_are_files(bases: Path, tmp_path: Path) -> None:
    (tmp_path / "beside").write_text("beside\n")
    (tmp_path / "Dockerfile").write_text(
        f"FROM {IMAGE}\nENV WHO=world\nRUN mkdir /there\nCOPY <<EOF /made/\nhello $WHO \\$WHO ${{NONE:-none}}\nEOF\n"
        "COPY <<'EOF' /quoted\nhello $WHO\nEOF\nCOPY <<EOF /there\nin it\nEOF\n"
        "COPY <<one.txt beside <<two.txt /all/\n1\none.txt\n2\ntwo.txt\n"
    )
    layer = asyncio.run(build(tmp_path, bases, tmp_path / "cache"))
    with start_space(layer.folders, tmp_path / "home") as space:
        script = "cat /made/EOF /quoted /there/EOF /all/one.txt /all/beside /all/two.txt"
        assert space.run_script(script) == "hello world $WHO none\nhello $WHO\nin it\n1\nbeside\n2\n[0]"


def test_what_a_dockerignore_names_is_not_copied(bases: Path, tmp_path: Path) -> None:
    context = tmp_path / "context"
    (context / "data").mkdir(parents=True)
    for name in ("kept", "secret"):
        (context / "data" / name).write_text(name)
    (context / ".dockerignore").write_text("**/secret\n")
    (context / "Dockerfile").write_text(f"FROM {IMAGE}\nCOPY . /all/\n")
    layer = asyncio.run(build(context, bases, tmp_path / "cache"))
    with start_space(layer.folders, tmp_path / "home") as space:
        assert (
            space.run_script("ls -A /all /all/data")
            == "/all:\n.dockerignore\nDockerfile\ndata\n\n/all/data:\nkept\n[0]"
        )
    (context / "Dockerfile").write_text(f"FROM {IMAGE}\nCOPY data/secret /all/\n")
    with pytest.raises(SandboxError, match="line 2: there is no data/secret to copy"):
        asyncio.run(build(context, bases, tmp_path / "cache"))


def test_later_commands_run_by_the_shell_that_is_set(bases: Path, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(
        f'FROM {IMAGE}\nSHELL ["/bin/bash", "-o", "pipefail", "-c"]\nRUN [[ a == a ]] && ! false | true\n'
    )
    asyncio.run(build(tmp_path, bases, tmp_path / "cache"))


OWNER = """
import asyncio, sys
from pathlib import Path
from wane_research.evaluation.sandbox.namespace import Namespace

async def main():
    space = Namespace()
    await space.up([Path(sys.argv[1])], Path(sys.argv[2]), network="host")
    await space.run(["bash", "-c", "sleep 1000 & echo"])
    print(space._pid, flush=True)
    await asyncio.sleep(1000)

asyncio.run(main())
"""


def test_a_namespace_ends_with_its_owner_however_that_ends(bases: Path, tmp_path: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, bases / IMAGE, tmp_path / "home"],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PATH": SEARCH_PATH},
    )
    with owner:
        assert owner.stdout is not None
        first = int(owner.stdout.readline())
        owner.kill()
    for _ in range(200):
        if not Path(f"/proc/{first}").exists():
            return
        time.sleep(0.05)
    pytest.fail("the namespace lives on without its owner")


ROOTLESS = """
import asyncio, sys
from pathlib import Path
from wane_research.evaluation.sandbox.namespace import Mount, Namespace

async def main(base, home):
    space = Namespace()
    await space.up([base], home, [Mount(base, "/opt/base", read_only=True)], network="host")
    done = await space.run(["bash", "-c", "id -u; echo new >/etc/new; cat /etc/new; echo x >/opt/base/x"])
    print(done.output, end="")
    await space.down()

asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
"""
NOBODY = 65534


@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests run without root already")
def test_it_works_without_root() -> None:
    with tempfile.TemporaryDirectory() as folder:
        base, source = make_base(Path(folder) / "bases"), Path(folder) / "source"
        os.chmod(folder, 0o755)
        for package in (wane, wane_research):
            assert package.__file__ is not None
            copy = source / package.__name__
            shutil.copytree(Path(package.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
        home = Path(folder) / "home"
        home.mkdir()
        # To its own root, files of others are nobody's: so the base must be the user's.
        for path in (home, base, *base.rglob("*")):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
        done = None
        for python in (sys.executable, "/usr/bin/python3"):
            try:
                done = subprocess.run(
                    [python, "-B", "-c", ROOTLESS, base, home],
                    capture_output=True,
                    text=True,
                    check=False,
                    env={"PYTHONPATH": str(source), "PATH": SEARCH_PATH},
                    user=NOBODY,
                    group=NOBODY,
                    extra_groups=[],
                )
                break
            except (PermissionError, FileNotFoundError):
                continue
        if done is None or "requires a different Python" in done.stderr or "ImportError" in done.stderr:
            pytest.skip("no Python of at least 3.11 that another user may run")
        if "did not start" in done.stderr:
            pytest.skip(f"user namespaces are not allowed here: {done.stderr.splitlines()[-1]}")
        told = done.stdout.splitlines()
        assert told[:2] == ["0", "new"], done.stderr
        assert "Read-only" in told[2]
