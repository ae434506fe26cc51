"""`python -m worker_agent.guard.hook`: may a container start? Asked by its runtime.

A guard ends what runs after the end of the lease; until it has looked, that runs. With this hook,
what is started after the end never runs at all. It is a createRuntime hook (OCI runtime
specification): the state of the container comes as JSON on standard input, the environment of its
process stands in its bundle. Exit code 1, with the reason on standard error: it may not.

It goes by the guard's own note, and by the agent's where that is on this node. Containers of
others start, and so does what cannot be understood: no node must fail by this program.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from federation.core.holding import NEVER
from federation.edge.machine import boottime
from worker_agent.guard.decision import Knowledge, Run, refusal, run_of
from worker_agent.guard.notices import NONSENSE, Note, NoticeError

REFUSED = 1
LOOK_S = 0.25
"""Between two looks for the first note of a guard. It writes one every second."""
SILENT_S = 10.0
"""After so long without a note it is the guard that has to be looked at."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0: it may start. Seconds."""
    parser = argparse.ArgumentParser(prog="fedq-guard-hook", description=__doc__)
    parser.add_argument("--status-file", type=Path, default=Path("/var/lib/fedq/guard.json"))
    parser.add_argument("--deadline-file", type=Path, help="of the agent, if it runs on this node")
    parser.add_argument("--cluster", default="", help="whose notes count; any if not given")
    parser.add_argument(
        "--wait", type=float, default=30.0, help="for the guard after a start of the machine"
    )
    options = parser.parse_args(arguments)
    try:
        run = run_in(Path(json.load(sys.stdin)["bundle"]))
    except (OSError, *NONSENSE) as error:
        print(f"fedq: not understood, and let through: {error!r}", file=sys.stderr)  # noqa: T201  (a runtime reads it)
        return 0
    # Until when the lease holds does not matter to some.
    if run is None or Knowledge(0.0, 0.0).ends(run) == NEVER:
        return 0
    notes = Note(options.status_file, options.cluster), options.deadline_file
    why = _refusal(run, *notes, options.wait)
    if why:
        print(f"fedq: {why}", file=sys.stderr)  # noqa: T201  (it becomes an event of the pod)
    return REFUSED if why else 0


def run_in(bundle: Path) -> Run | None:
    """The run that the process of a bundle will be of; None if it is of none. Raises OSError, or
    one of NONSENSE.
    """
    config: dict[str, Any] = json.loads((bundle / "config.json").read_text())
    entries = (config.get("process") or {}).get("env") or []
    return run_of(b"\0".join(str(entry).encode(errors="replace") for entry in entries))


def known(kept: Note, file: Path | None, now: float) -> Knowledge:
    """What is known on this node of its lease. Raises NoticeError if the guard has noted nothing
    since the machine started.
    """
    knowledge = kept.knowledge()
    if file is not None:
        try:
            return knowledge.told(Note(file, kept.cluster).read(), now)
        except NoticeError:  # the guard tells of it
            pass
    return knowledge


def _refusal(run: Run, kept: Note, file: Path | None, wait: float) -> str:
    until = boottime() + wait
    while True:
        now = boottime()
        try:
            why = refusal(known(kept, file, now), run, now)
            return f"{why}{_silent(kept, now)}" if why else ""
        except NoticeError as error:
            if now >= until:
                return f"the job {run.job} may not start here: the guard is silent: {error}"
        time.sleep(LOOK_S)  # there is nothing to watch that the standard library can watch


def _silent(kept: Note, now: float) -> str:
    """What is to be said of a guard that may not know what has been renewed."""
    if (silence := kept.silence(now)) < SILENT_S:
        return ""
    return f"; the guard of this node has noted nothing for {silence:.0f} s: start it again"


if __name__ == "__main__":
    sys.exit(main())
