"""What the checks of all four steps share: a kernel built from the tree, a machine that boots it, and what it says."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import traceback
from collections.abc import Callable
from pathlib import Path

TREE = Path("/app/linux")
CHECKS = Path("/var/tmp/checks")
TESTS = Path(__file__).parent
REWARDS = Path("/logs/verifier/reward.json")
JOBS = f"-j{os.cpu_count() or 1}"

Said = dict[str, dict[str, str]]


def run(*argv: str | Path, cwd: Path = TREE, timeout: float = 5400) -> str:
    """Run a command, and return what it printed; raise if it fails, with the end of that."""
    done = subprocess.run(
        [str(word) for word in argv], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout
    )
    text = done.stdout.decode(errors="replace")
    if done.returncode:
        raise RuntimeError(f"{argv[0]} ended with {done.returncode}:\n{text[-3000:]}")
    return text


def kernel_of_the_tree() -> Path:
    """Build a small kernel from a copy of the sources, as they are now; what the tree holds of builds is not used."""
    copy = CHECKS / "linux"
    copy.mkdir(parents=True, exist_ok=True)
    names = run("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
    present = [name for name in names.split("\0") if name and (TREE / name).is_symlink() | (TREE / name).exists()]
    # By content: then only what was changed since the last step is built again.
    subprocess.run(
        ["rsync", "--archive", "--checksum", "--no-times", "--from0", "--files-from=-", f"{TREE}/", f"{copy}/"],
        input="\0".join(present).encode(),
        check=True,
    )
    if not (copy / ".config").exists():
        run("make", f"KCONFIG_ALLCONFIG={TESTS / 'kernel.config'}", "tinyconfig", cwd=copy)
    run("make", "olddefconfig", cwd=copy)
    run("make", JOBS, "bzImage", cwd=copy)
    return copy / "arch/x86/boot/bzImage"


def run_probe(kernel: Path) -> tuple[Said, dict[str, list[str]]]:
    """Boot a kernel with the probe, and return what it said: lines of names and values, and lines of files."""
    root = CHECKS / "root"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    run("gcc", "-static", "-pthread", "-O1", "-o", root / "init", TESTS / "probe.c")
    archive = subprocess.run(
        ["cpio", "--quiet", "-o", "-H", "newc"], cwd=root, input=b"init\n", stdout=subprocess.PIPE, check=True
    )
    image = CHECKS / "initramfs.gz"
    image.write_bytes(gzip.compress(archive.stdout, mtime=0))
    text = boot(kernel, image)
    said: Said = {}
    files: dict[str, list[str]] = {}
    for line in text.splitlines():
        kind, _, rest = line.strip("\r").partition(" ")
        name, _, rest = rest.partition(" ")
        if kind == "line":
            files.setdefault(name, []).append(rest)
        elif kind in ("probe", "file"):
            found = [name, *rest.split()] if "=" in name else rest.split()
            key = f"{kind} {'' if '=' in name else name}".strip()
            said.setdefault(key, {}).update(pair.split("=", 1) for pair in found if "=" in pair)
            if name == "end":
                said["end"] = {}
    if "end" not in said:
        print(text[-3000:])
        raise RuntimeError("the machine did not come to its end")
    return said, files


def boot(kernel: Path, initramfs: Path) -> str:
    """Return what a machine prints on its serial console, until it restarts or 5 minutes have passed."""
    argv = ["qemu-system-x86_64", "-accel", "kvm", "-accel", "tcg", "-m", "512", "-kernel", str(kernel)]
    argv += ["-initrd", str(initramfs), "-append", "console=ttyS0 panic=-1", "-display", "none", "-serial", "stdio"]
    argv += ["-no-reboot", "-monitor", "none"]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=300)
    except subprocess.TimeoutExpired as error:
        return (error.stdout or b"").decode(errors="replace")
    return done.stdout.decode(errors="replace")


def system_call_works(said: Said) -> bool:
    child, thread, expected = said["probe child"], said["probe thread"], said["probe expected"]
    rss = int(child["rss"])
    return holds(
        {
            "the caller": said["probe self"]["code"] == "0" and said["probe self"]["pid"] == "1",
            "by PID": said["probe first"]["pid"] == "1" and said["probe first"]["comm"] == "init",
            "no parent is 0": said["probe first"]["ppid"] == "0",
            "a child's PID and parent": (child["pid"], child["ppid"]) == (expected["pid"], "1"),
            "its user": child["uid"] == "1234",
            "its threads": child["threads"] == "3",
            "its memory": 8 << 20 <= rss <= 32 << 20,
            "its name, with zeros after it": (child["comm"], child["zeros"]) == ("a|child", "1"),
            "of a thread, its process": thread["code"] == "0" and thread["pid"] == expected["pid"],
            "a kernel thread has no memory": said["probe kernel-thread"]["rss"] == "0",
            "a kernel thread's name": said["probe kernel-thread"]["comm"] == "kthreadd",
            "no such process": said["probe none"]["code"] == "-3",
            "a process that has ended": said["probe gone"]["code"] == "-3",
            "a negative PID": said["probe negative"]["code"] == "-22",
            "too small a size": said["probe small"]["code"] == "-22",
            "no place to write to": said["probe no-place"]["code"] == "-14",
            "a larger size": said["probe large"] == {"code": "0", "kept": "1"},
            "another user may ask": said["probe stranger"]["code"] == "0",
            "in a PID namespace": said["probe inner-self"]["pid"] == "1" and said["probe inner-self"]["ppid"] == "0",
        }
    )


def proc_entry_works(said: Said, files: dict[str, list[str]]) -> bool:
    def values(name: str) -> dict[str, str]:
        return dict(line.split(":\t", 1) for line in files.get(name, []) if ":\t" in line)

    child, status, call = values("child"), values("status"), said["probe child"]
    names = [line.partition(":")[0] for line in files.get("child", [])]
    return holds(
        {
            "six lines, in order": names == ["Pid", "PPid", "Uid", "Threads", "Rss", "Comm"],
            "readable by everyone": said.get("file child", {}).get("mode") == "444",
            "as the system call says": (
                [child.get(name) for name in ("Pid", "PPid", "Uid", "Threads", "Rss")]
                == [call[name] for name in ("pid", "ppid", "uid", "threads", "rss")]
            ),
            "as /proc/<pid>/status says": (
                [child.get("Pid"), child.get("PPid"), child.get("Threads")]
                == [status.get("Pid"), status.get("PPid"), status.get("Threads")]
            ),
            "a line break in a name": child.get("Comm") == "a\\012child",
            "the first process": values("first").get("Comm") == "init",
            "a kernel thread": values("kernel-thread").get("Rss") == "0",
            "another user may read": said.get("file stranger", {}).get("mode") == "444" and len(files["stranger"]) == 6,
        }
    )


def header_is_there() -> bool:
    """The header that programs include gives the structure of 48 bytes."""
    program = '#include "pid_summary.h"\n_Static_assert(sizeof(struct pid_summary) == 48, "size");\n'
    include = TREE / "include/uapi/linux"
    argv = ["gcc", "-fsyntax-only", f"-I{include}", "-x", "c", "-"]
    return subprocess.run(argv, input=program.encode()).returncode == 0


def holds(checks: dict[str, bool]) -> bool:
    """Whether all checks hold; those that do not are printed."""
    failed = [about for about, good in checks.items() if not good]
    for about in failed:
        print(f"does not hold: {about}")
    print(f"{len(checks) - len(failed)} of {len(checks)} checks hold")
    return not failed


def grade(parts: dict[str, Callable[[], bool]]) -> None:
    """Write a reward for each part, and `reward`, which is 1 if all are. The first is what the others need."""
    rewards: dict[str, int] = {}
    for name, check in parts.items():
        try:
            rewards[name] = int(not (rewards and not next(iter(rewards.values()))) and check())
        except Exception:  # a check that breaks does not hold
            traceback.print_exc()
            rewards[name] = 0
    rewards = {"reward": min(rewards.values()), **rewards}
    REWARDS.write_text(json.dumps(rewards) + "\n")
    print(rewards)
