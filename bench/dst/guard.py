"""The node guard of a worker: kills what has to be dead, whatever lives beside it (tier B).

A model of `python -m worker_agent.guard`: it reads the note of the agent on the clock of their
machine, once a second.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from bench.dst.clock import Host, VirtualLoop
from bench.dst.cluster import Cluster
from bench.dst.programs import Note
from bench.dst.truth import Traits

TICK_S = 1.0


@dataclass
class Guard:
    """`start` begins to guard."""

    loop: VirtualLoop
    host: Host
    cluster: Cluster
    note: Note

    def start(self) -> None:
        """Guard from now on."""
        self.cluster.guard = self.doomed
        self._tick()

    def _tick(self) -> None:
        if self.note.text is not None:
            self.cluster.kill(self.doomed)
        self.loop.later(TICK_S, self._tick)

    def doomed(self, traits: Traits) -> bool:
        """Whether the containers of such a job may not run now."""
        if self.note.text is None:
            return False
        noted, now = json.loads(self.note.text), self.host.read(self.loop.now)
        if traits.policy == "stop":
            return bool(now >= noted["deadline"])
        if traits.rerun_after is not None:
            return bool(now >= max(noted["deadline"], noted["renewed"] + traits.rerun_after))
        return False
