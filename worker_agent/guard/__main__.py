"""`python -m worker_agent.guard`: guard this node until told to stop."""

from __future__ import annotations

import signal
import sys

from pydantic import ValidationError

from federation.edge.telemetry import configure_logging
from worker_agent.guard import cgroups
from worker_agent.guard.decision import Times
from worker_agent.guard.killing import Killer
from worker_agent.guard.notices import Note
from worker_agent.guard.pull import Pull
from worker_agent.guard.settings import GuardSettings
from worker_agent.guard.watch import Guard, Sources


def make(settings: GuardSettings) -> tuple[Guard, Pull | None]:
    """The guard that the settings want, and who asks the agent for it."""
    pull = None
    if settings.deadline_url:
        pull = Pull(
            settings.deadline_url, ca=settings.ca, period=settings.pull, lease=settings.lease
        )
    file = settings.deadline_file and Note(settings.deadline_file, settings.cluster)
    settings.status_file.parent.mkdir(parents=True, exist_ok=True)
    kept = Note(settings.status_file, settings.cluster)
    times = Times(settings.kill, settings.margin, settings.grace, settings.lead)
    guard = Guard(
        Sources(kept, file or None, pull),
        Killer(times, only=settings.only, root=settings.cgroups or cgroups.mount()),
        settings.patience,
        cluster=settings.cluster,
        tick=settings.tick,
    )
    return guard, pull


def main() -> int:
    """Exit code 0 after a signal, 2 for settings it cannot use."""
    try:
        settings = GuardSettings()
        configure_logging(settings.log_level)
    except (ValidationError, KeyError) as error:
        print(f"the guard cannot use these settings: {error}", file=sys.stderr)  # noqa: T201  (before logging is set up)
        return 2
    guard, pull = make(settings)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: guard.stop())
    if pull is not None:
        pull.start()
    guard.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
