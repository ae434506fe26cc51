"""Building the programs of a group with Go, from the modules in `gotools/`, by name.

The go.mod folders may be read-only (package data) and are copied first. Programs appear in the
cache by a rename, so whoever looks there never meets half a file; a lock per group lets a
second builder wait for the first instead of doing the same work.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from fedq.rig.buildprogress import BuildProgress
from fedq.rig.errors import RigError
from fedq.rig.files import locked
from fedq.rig.toolchain import Go, find_go, go_environment
from fedq.rig.tools import Group, is_executable

GOTOOLS = Path(__file__).parent / "gotools"


def build(
    group: Group, tools: Sequence[str], cache: Path, tell: Callable[[str], None] = print
) -> None:
    """Build `tools` of `group` into the cache, unless another builder did so meanwhile."""
    go = find_go()
    folder = cache / group.folder
    with locked(folder / ".lock"):
        missing = [tool for tool in tools if not is_executable(folder / tool)]
        if not missing:
            return
        tell(f"building {', '.join(missing)} {group.version} with {go.version} (once per user)")
        with tempfile.TemporaryDirectory(dir=folder, prefix=".build-") as work:
            module = Path(work, "module")
            shutil.copytree(GOTOOLS / group.gotool, module)
            for path in (module, *module.rglob("*")):
                path.chmod(path.stat().st_mode | 0o200)
            output = Path(work, "out")
            _compile(go, group, missing, module, output, tell)
            _install(output, folder, group, missing)


def _compile(
    go: Go,
    group: Group,
    tools: Sequence[str],
    module: Path,
    output: Path,
    tell: Callable[[str], None],
) -> None:
    packages = [group.packages[tool] for tool in tools]
    flags = ["-trimpath", "-ldflags", f"-s -w {group.ldflags}".strip()]
    tell(f"fetching the Go modules of {group.name}")
    total = _packages_to_compile(go, module, flags, packages)
    output.mkdir()
    started = time.monotonic()
    command = [str(go.program), "build", "-v", *flags, "-o", f"{output}/", *packages]
    last: deque[str] = deque(maxlen=15)
    with (
        subprocess.Popen(
            command, cwd=module, env=go_environment(go), stderr=subprocess.PIPE, text=True
        ) as process,
        BuildProgress(group.name, total, tell) as progress,
    ):
        assert process.stderr is not None
        try:
            for line in process.stderr:
                last.append(line.rstrip())
                progress.advance(line.strip())
        except BaseException:  # also Ctrl-C must not leave the compiler running
            process.terminate()
            raise
    if process.returncode:
        raise RigError(
            f"building {group.name} {group.version} failed",
            "\n".join(last),
            "Go needs access to a module proxy (GOPROXY) and about 6 GB of disk; run it again.",
        )
    tell(f"built {group.name} {group.version} in {time.monotonic() - started:.0f} s")


def _packages_to_compile(go: Go, module: Path, flags: Sequence[str], packages: list[str]) -> int:
    """How many packages Go's build cache lacks; 0 when that cannot be told (no time left then).

    Downloads the modules as well, as Go reads every package for the answer.
    """
    template = '{{if .Stale}}{{printf "%s\\n" .StaleReason}}{{end}}'
    command = [str(go.program), "list", "-deps", *flags, "-f", template, *packages]
    done = subprocess.run(
        command, cwd=module, env=go_environment(go), capture_output=True, text=True, check=False
    )
    reasons = [line for line in done.stdout.splitlines() if line]
    return sum("available in build cache" not in reason for reason in reasons)


def _install(output: Path, folder: Path, group: Group, tools: Sequence[str]) -> None:
    for tool in tools:
        # `go build` names a program after its package: `v3` for etcd's.
        built = output / tool
        if not built.exists():
            built = next(output.iterdir())
        built.chmod(0o755)
        built.replace(folder / tool)
