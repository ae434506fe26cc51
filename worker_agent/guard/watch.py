"""The guard at work: reads its sources, looks at the clock, ends what has to end, says so."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from federation.edge.files import write_atomic
from federation.edge.machine import boot_id, boottime
from worker_agent.guard.decision import Knowledge, Notice
from worker_agent.guard.killing import Killer
from worker_agent.guard.notices import Note, NoticeError, noted
from worker_agent.guard.pull import Pull

log = structlog.get_logger(__name__)

BUSY = 0.25
"""Seconds between two looks while the lease is over and there are, or were, runs to end: a kubelet
may start them again."""
JUMP = 3.0
"""A look that comes so many seconds late is told: the machine or the guard stood still."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Where renewals are heard of. `kept` is the guard's own file, which outlives it."""

    kept: Note
    file: Note | None = None
    pull: Pull | None = None


class Guard:
    """One node. `run` it, or call `look` in its place. One that knows of no renewal waits for
    `patience` seconds; if it is started again, from when it first did.
    """

    def __init__(
        self,
        sources: Sources,
        killer: Killer,
        patience: float,
        *,
        cluster: str = "",
        tick: float = 1.0,
        clock: Callable[[], float] = boottime,
    ) -> None:
        self._sources, self._killer = sources, killer
        self._cluster, self._tick, self._clock = cluster, tick, clock
        self._ended = threading.Event()
        self._boot_id = boot_id()
        self._problems: list[str] = []
        self._over, self._ended_before = False, 0
        now = self._looked = clock()
        self.knowledge = Knowledge(_since(sources.kept, now), patience)
        self._learn(now, sources.kept, sources.file)

    def stop(self) -> None:
        """End `run` soon."""
        self._ended.set()

    def run(self) -> None:
        """Look until told to stop. Nothing that goes wrong in a look ends it."""
        log.info("guard.started", deadline=self._left(self._clock()), problems=self._problems)
        while not self._ended.is_set():
            try:
                self.look()
            except Exception:  # whatever it was: the next look may work, and nobody else guards
                log.exception("guard.failed")
            self._ended.wait(self._pause())  # the tick of the protocol

    def look(self) -> None:
        """One tick."""
        now = self._clock()
        if now - self._looked > self._tick + JUMP:
            log.warning("guard.stood_still", seconds=round(now - self._looked, 1))
        self._looked = now
        self._learn(now, self._sources.file)
        over = now >= self.knowledge.deadline
        if over != self._over:
            self._over, self._ended_before = over, self._killer.ended
            self._tell_turn(now)
        self._killer.tick(self.knowledge, now)
        self._note(now)

    def _learn(self, now: float, *notes: Note | None) -> None:
        """What is known by now: of all notices the one that holds longest."""
        self._problems = []
        for note in filter(None, notes):
            try:
                self._take(note.read(), now)
            except NoticeError as error:
                self._problems.append(str(error))
        if (pull := self._sources.pull) is not None:
            if pull.notice is not None:
                self._take(pull.notice, now)
            if pull.problem:
                self._problems.append(pull.problem)

    def _take(self, notice: Notice, now: float) -> None:
        self.knowledge = self.knowledge.told(notice, now)

    def _tell_turn(self, now: float) -> None:
        if not self._over:
            log.info("lease.holds", left=self._left(now))
        elif self.knowledge.notice is None:
            log.warning("lease.unknown", patience=self.knowledge.patience, why=self._problems)
        else:
            log.warning("lease.over", since=-self._left(now), why=self._problems)

    def _left(self, now: float) -> float:
        return round(self.knowledge.deadline - now, 1)

    def _pause(self) -> float:
        """Seconds until the next look: a tick, or less if something is to be done before."""
        if self._killer.sentences or (self._over and self._killer.ended > self._ended_before):
            return min(self._tick, BUSY)
        left = self.knowledge.deadline - self._clock()
        return min(self._tick, left) if left > 0 else self._tick

    def _note(self, now: float) -> None:
        """The heartbeat of the guard; see `Note` for what its next start takes from it."""
        notice = self.knowledge.notice
        body: dict[str, Any] = {
            "bootId": self._boot_id,
            "cluster": self._cluster,
            "at": now,
            "state": "over" if self._over else "unknown" if notice is None else "holds",
            "problems": self._problems,
            "ending": [f"{run.job}/{run.attempt}" for run in self._killer.sentences],
            "ended": self._killer.ended,
            **noted(self.knowledge),
        }
        _write(self._sources.kept.path, json.dumps(body))


def _since(kept: Note, now: float) -> float:
    """Since when, after the start of the machine, guards have looked at it."""
    try:
        return min(now, kept.knowledge().since)
    except NoticeError:
        return now


def _write(path: Path, text: str) -> None:
    """That it fails is told, and no reason not to guard."""
    try:
        write_atomic(path, text, 0o644)
    except OSError as error:
        log.warning("guard.not_noted", file=str(path), why=str(error))
