"""An environment of Harbor in bubblewrap, since the tests have no container engine. Harbor's process imports it.

It copies what a Dockerfile copies. It has this machine's programs and the Python of SPADE_PYTHON. Everybody is root.
"""

import asyncio
import os
import re
import shutil
import tempfile
from pathlib import Path

from harbor.environments.base import BaseEnvironment, ExecResult

PYTHON = Path(os.environ["SPADE_PYTHON"])
FOLDERS = (Path("/usr"), Path("/bin"), Path("/lib"), Path("/lib64"), PYTHON.parents[1], PYTHON.resolve().parents[1])
SEEN = [word for folder in FOLDERS if folder.exists() for word in ("--ro-bind", folder, folder)]
"""Folders of this machine that the environment sees, as bubblewrap's arguments."""
_COPY = re.compile(r"^COPY (?:--chmod=(\d+) )?(\S+) (\S+)$", re.MULTILINE)


class BubbleEnvironment(BaseEnvironment):
    """A folder as the root of its processes."""

    @staticmethod
    def type() -> str:
        return "bubble"

    def _validate_definition(self):
        self._dockerfile = (self.environment_dir / "Dockerfile").read_text()

    async def start(self, force_build):
        self._root = Path(tempfile.mkdtemp(prefix="bubble-"))
        self._path("/usr/local").mkdir(parents=True)
        for mode, source, target in _COPY.findall(self._dockerfile):
            await self._copy(self.environment_dir / source, self._path(target))
            if mode:
                for each in (self._path(target), *self._path(target).rglob("*")):
                    each.chmod(int(mode, 8))
        await self.ensure_dirs(self._mount_targets(writable_only=True))

    async def stop(self, delete):
        shutil.rmtree(self._root)

    async def upload_file(self, source_path, target_path):
        await self._copy(Path(source_path), self._path(target_path))

    async def upload_dir(self, source_dir, target_dir):
        await self._copy(Path(source_dir), self._path(target_dir))

    async def download_file(self, source_path, target_path):
        await self._copy(self._path(source_path), Path(target_path))

    async def download_dir(self, source_dir, target_dir):
        await self._copy(self._path(source_dir), Path(target_dir))

    async def exec(self, command, cwd=None, env=None, timeout_sec=None, user=None):
        local = "/usr/local"
        process = await asyncio.create_subprocess_exec(
            "bwrap", "--bind", self._root, "/", *SEEN, "--bind", self._path(local), local, "--proc", "/proc",
            "--dev", "/dev", "--unshare-all", "--die-with-parent", "--chdir", cwd or "/", "--clearenv",
            "--setenv", "PATH", f"{PYTHON.parent}:/usr/local/bin:/usr/bin:/bin",
            *[word for name, value in (env or {}).items() for word in ("--setenv", name, value)],
            "bash", "-c", command,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, err = await asyncio.wait_for(process.communicate(), timeout_sec or 60)
        return ExecResult(stdout=out.decode(), stderr=err.decode(), return_code=process.returncode)

    def _path(self, inside):
        return self._root / str(inside).lstrip("/")

    async def _copy(self, source, target):
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
