"""What takes hours of a clock: in the simulation, on virtual time."""

from __future__ import annotations

import asyncio
import importlib.util
import sys

from fedq.drill.ground import Ground
from fedq.drill.running import Unsuited

SEEDS = "1..20"


async def clock_rate(ground: Ground) -> None:
    """Clocks that run at different speeds, among the other faults of the simulation."""
    if importlib.util.find_spec("bench") is None:
        raise Unsuited("the simulation (bench.dst) is not installed")
    ground.strike(note=f"simulation, seeds {SEEDS}")
    command = [sys.executable, "-m", "bench.dst", "--seeds", SEEDS]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    ground.heal("done")
    lines = output.decode().strip().splitlines()
    ground.expect.true("no invariant was violated", process.returncode == 0, "; ".join(lines[-5:]))
    ground.note(lines[-1] if lines else "it said nothing")
