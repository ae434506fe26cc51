"""The hook of a container runtime: a program that is asked before a container starts.

As runc calls a createRuntime hook (OCI runtime specification): the state of the container on its
standard input, with the folder of its bundle, in which `config.json` has the environment.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from asyncio.subprocess import PIPE
from collections.abc import Sequence
from pathlib import Path

from fedq.rig.pods.plan import Plan

VERSION = "1.0.2"


async def refusal(command: Sequence[str], plan: Plan) -> str:
    """Why the hook lets a pod not start; '' if it may."""
    with tempfile.TemporaryDirectory(prefix="fedq-bundle-") as bundle:
        env = [f"{key}={value}" for key, value in plan.env.items()]
        config = {"ociVersion": VERSION, "process": {"env": env}}
        (Path(bundle) / "config.json").write_text(json.dumps(config))
        state = {"ociVersion": VERSION, "id": plan.uid, "status": "creating", "bundle": bundle}
        process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stderr=PIPE)
        _, said = await process.communicate(json.dumps(state).encode())
    if process.returncode == 0:
        return ""
    return said.decode(errors="replace").strip() or f"its hook ended with {process.returncode}"
