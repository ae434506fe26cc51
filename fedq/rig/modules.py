"""What a Go module has beside its programs: manifests, kept next to what was built from it."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

from fedq.rig.build import GOTOOLS
from fedq.rig.errors import RigError
from fedq.rig.files import locked
from fedq.rig.paths import binary_cache
from fedq.rig.toolchain import find_go, go_environment
from fedq.rig.tools import Group


def keep(group: Group, module: str, part: str, name: str) -> Path:
    """The folder `part` of a module at the version of `group`, in the binary cache as `name`.

    It appears there whole. Raises RigError when Go cannot get the module.
    """
    folder = binary_cache() / group.folder
    kept = folder / name
    with locked(folder / ".lock"):
        if kept.is_dir():
            return kept
        source = _source(group, module) / part
        with tempfile.TemporaryDirectory(dir=folder, prefix=f".{name}-") as work:
            copy = Path(work, name)
            shutil.copytree(source, copy, copy_function=shutil.copyfile)
            for path in (copy, *copy.rglob("*")):  # read-only, as all in Go's cache
                path.chmod(path.stat().st_mode | 0o200)
            copy.replace(kept)
    return kept


def _source(group: Group, module: str) -> Path:
    go = find_go()
    command = [str(go.program), "mod", "download", "-json", f"{module}@v{group.version}"]
    done = subprocess.run(
        command,
        cwd=GOTOOLS / group.gotool,
        env=go_environment(go),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RigError(f"the manifests of {group.name} cannot be had", done.stderr.strip()[-500:])
    return Path(json.loads(done.stdout)["Dir"])
