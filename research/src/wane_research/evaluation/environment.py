"""An environment for Harbor without containers: `-e wane_research.evaluation.environment:LinuxEnvironment`."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock
from typing_extensions import override

from wane_research.evaluation import need_harbor

need_harbor("wane_research.evaluation.environment")

from harbor.environments.base import BaseEnvironment, ExecResult  # noqa: E402 - after the check
from harbor.environments.capabilities import EnvironmentCapabilities  # noqa: E402

from wane.core.errors import ConfigError  # noqa: E402
from wane_research.evaluation.sandbox.image import BASES, Setting, build  # noqa: E402
from wane_research.evaluation.sandbox.namespace import (  # noqa: E402
    Mount,
    Namespace,
    Network,
    get_directory,
    get_file,
    missing,
    put_directory,
    put_file,
)


class LinuxEnvironment(BaseEnvironment):  # type: ignore[misc, unused-ignore]
    """A task's Dockerfile, built on a root file system from a folder and run in namespaces with an overlay.

    Args:
        bases: folder with a root file system for each base image, by the image's name.
        cache: folder for built layers and for running trials; `cache` in `bases` if None.
        network: `host`, or `own` for a network with its own ports that does not reach this machine's loopback
            addresses. Tasks that ask for no network get none.
        auto_mounting: mount Harbor's folders for logs, so that they are on this machine while the agent works.
    """

    def __init__(
        self,
        *args: Any,
        bases: str | Path = BASES,
        cache: str | Path | None = None,
        network: Literal["host", "own"] = "host",
        auto_mounting: bool = True,
        **kwargs: Any,
    ) -> None:
        if network not in ("host", "own"):
            raise ConfigError(f"environment: network is {network!r}; it must be host or own")
        self._network_choice: Network = network
        self._bases = Path(bases).expanduser()
        self._cache = Path(cache).expanduser() if cache else self._bases / "cache"
        self._space = Namespace()
        self._setting = Setting()
        self._home: Path | None = None
        self._held: FileLock | None = None
        super().__init__(*args, auto_mounting=auto_mounting, **kwargs)

    @staticmethod
    @override
    def type() -> str:
        return "wane-linux"

    @property
    @override
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities(mounted=True, disable_internet=True)

    @override
    def _validate_definition(self) -> None:
        if reason := missing():
            raise ConfigError(f"the environment linux cannot run here: {reason}")
        if not (self.environment_dir / "Dockerfile").exists():
            raise FileNotFoundError(f"{self.environment_dir / 'Dockerfile'}: the environment linux needs a Dockerfile")

    @override
    async def start(self, force_build: bool) -> None:
        layer = await build(self.environment_dir, self._bases, self._cache, force=force_build)
        self._setting = layer.setting
        self._home, self._held = _new_home(self._cache)
        mounts: list[Mount] = []
        for bind in self._host_mounts:
            if bind["type"] == "bind":
                source = Path(bind["source"])
                if not source.exists():
                    source.mkdir(parents=True)
                mounts.append(Mount(source, bind["target"], bool(bind.get("read_only"))))
        network: Network = "none" if self._network_disabled else self._network_choice
        await self._space.up(layer.folders, self._home, mounts, network=network)
        await self.ensure_dirs(self._mount_targets(writable_only=True))

    @override
    async def stop(self, delete: bool) -> None:
        await self._space.down()
        home, self._home = self._home, None
        if home is None or self._held is None:
            return
        if delete:
            shutil.rmtree(home, ignore_errors=True)
        else:
            # A folder without a lock file is not cleaned up.
            (home / "lock").unlink(missing_ok=True)
        self._held.release()

    @override
    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        done = await self._space.run(
            ["bash", "-c", command],
            cwd=cwd or self.task_env_config.workdir or self._setting.workdir,
            env={**self._setting.env, **(self._merge_env(env) or {})},
            user=self._resolve_user(user) or self._setting.user,
            timeout=timeout_sec,
        )
        return ExecResult(stdout=done.output, stderr=None, return_code=done.code)

    @override
    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        await put_file(self._space, Path(source_path), str(target_path))

    @override
    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        await put_directory(self._space, Path(source_dir), str(target_dir))

    @override
    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        await get_file(self._space, str(source_path), Path(target_path))

    @override
    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        await get_directory(self._space, str(source_dir), Path(target_dir))


def _new_home(cache: Path) -> tuple[Path, FileLock]:
    """Make a folder for a trial's changes, and remove the folders of trials whose process was killed.

    A trial holds a lock in its folder. The system releases it when the process dies, even by SIGKILL.
    """
    with FileLock(cache / "runs.lock"):
        for path in cache.glob("run-*/lock"):
            # Skips folders locked by a running trial, and those of other users.
            with suppress(OSError), FileLock(path, timeout=0):
                shutil.rmtree(path.parent, ignore_errors=True)
        home = Path(tempfile.mkdtemp(prefix="run-", dir=cache))
        lock = FileLock(home / "lock")
        lock.acquire()
        return home, lock
