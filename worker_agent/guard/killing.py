"""Ending runs: SIGTERM, a grace, SIGKILL; all their processes, whatever these did to get away.

A process is of a run if its environment says so, if it descends from one that is, if one that is
leads its session or its process group, or if it is in a control group of the run. Who was found to
be of it stays so, also when the one by whom it was found is gone. A daemon that is in none of these
(own session, cleared environment, lost parent, and no control groups) is not found.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from worker_agent.guard import cgroups
from worker_agent.guard.decision import Knowledge, Run, Times
from worker_agent.guard.processes import Process, send, table

log = structlog.get_logger(__name__)

STUCK = 5.0
"""Seconds after SIGKILL after which it is told that processes do not end."""


@dataclass
class Sentence:
    """A run of which the lease was over at `end`. `members` are its processes that live, `told`
    those that got a signal.
    """

    run: Run
    end: float
    kill_at: float
    members: dict[int, Process] = field(default_factory=dict)
    groups: set[Path] = field(default_factory=set)
    told: set[tuple[int, int]] = field(default_factory=set)
    killed_at: float | None = None


class Killer:
    """Carries out what is decided. Call `tick` every d seconds."""

    def __init__(
        self,
        times: Times,
        *,
        only: str = "",
        root: Path | None = None,
        processes: Callable[[bytes], dict[int, Process]] = table,
    ) -> None:
        """`only` is that of `decision.run_of`; `root` is where control groups are, if anywhere."""
        self._times, self._only, self._root = times, only.encode(), root
        self._processes = processes
        self._protected = {os.getpid(), 1}
        self.sentences: dict[Run, Sentence] = {}
        self._born: dict[Run, float] = {}
        """When runs were first seen to have begun: a kubelet may start them again and again."""
        self.ended = 0
        """How many runs were ended by now."""

    def tick(self, knowledge: Knowledge, now: float) -> None:
        """Sentence every run that has to stop by now, and go on with those that end. A sentence
        stands, also if the lease is renewed meanwhile: its processes were told to end.
        """
        if now < knowledge.deadline and not self.sentences:
            return
        processes = self._processes(self._only)
        self._sentence(processes, knowledge, now)
        due = {run for run in self.sentences if now >= knowledge.ends(run, self._born[run])}
        self._gather(processes, due)
        for sentence in list(self.sentences.values()):
            self._go_on(sentence, now)

    def _sentence(self, processes: Mapping[int, Process], knowledge: Knowledge, now: float) -> None:
        born: dict[Run, float] = {}
        for process in processes.values():
            if process.run:
                born[process.run] = min(process.born, born.get(process.run, process.born))
        for run in sorted(born, key=lambda r: r.job):
            end = knowledge.ends(run, self._born.setdefault(run, born[run]))
            kill = None if knowledge.notice is None else knowledge.notice.kill
            if now >= self._times.term_at(end, kill) and run not in self.sentences:
                kill_at = self._times.kill_at(run, end, now, kill)
                self.sentences[run] = Sentence(run, end, kill_at)
                log.warning(
                    "run.stops", job=run.job, attempt=run.attempt, late=round(now - end, 1),
                    grace=round(kill_at - now, 1),
                )  # fmt: skip

    def _gather(self, processes: Mapping[int, Process], due: set[Run]) -> None:
        """Find all processes of the runs that end. Only of those that are `due` new ones are
        looked for: others may have been started again under a lease that holds.
        """
        groups = cgroups.members(self._root) if self._root and self.sentences else {}
        for sentence in self.sentences.values():
            alive = {
                pid: processes[pid]
                for pid, known in sentence.members.items()
                if pid in processes and processes[pid].started == known.started
            }
            if sentence.run in due:
                alive |= {p.pid: p for p in processes.values() if p.run == sentence.run}
                sentence.groups |= cgroups.owned(groups, processes, sentence.run)
            for group in sentence.groups:
                below = (pids for other, pids in groups.items() if other.is_relative_to(group))
                inside: set[int] = set().union(*below)
                alive |= {pid: processes[pid] for pid in inside if pid in processes}
            sentence.members = self._spread(alive, processes, sentence.run)

    def _spread(
        self, alive: dict[int, Process], processes: Mapping[int, Process], run: Run
    ) -> dict[int, Process]:
        """With descendants and whole sessions and process groups; never another run."""
        found = dict(alive)
        grown = True
        while grown:
            grown = False
            for process in processes.values():
                near = {process.parent, process.session, process.group}
                if process.pid not in found and process.run in (None, run) and near & found.keys():
                    found[process.pid] = process
                    grown = True
        return {pid: p for pid, p in found.items() if pid not in self._protected}

    def _go_on(self, sentence: Sentence, now: float) -> None:
        run, members = sentence.run, sentence.members
        if not members:
            del self.sentences[run]
            self.ended += 1
            log.info("run.ended", job=run.job, attempt=run.attempt)
        elif now >= sentence.kill_at:
            self._kill(sentence, now)
        else:
            # As a kubelet does: to those at the top, which see to the rest; then to whom they left.
            for process in members.values():
                key = (process.pid, process.started)
                if process.parent not in members and key not in sentence.told:
                    sentence.told.add(key)
                    # Whoever was started when the lease was over has nothing to bring to an end.
                    late = process.born > sentence.end
                    _signal(process, signal.SIGKILL if late else signal.SIGTERM)

    def _kill(self, sentence: Sentence, now: float) -> None:
        if sentence.killed_at is None:
            sentence.killed_at = now
            log.warning("run.killed", job=sentence.run.job, processes=len(sentence.members))
        elif now - sentence.killed_at > STUCK:
            log.error("run.survives", job=sentence.run.job, pids=sorted(sentence.members))
        for group in sentence.groups:
            cgroups.kill(group)
        for process in sentence.members.values():
            _signal(process, signal.SIGKILL)


def _signal(process: Process, number: int) -> None:
    """One that cannot be signalled must not save the others."""
    try:
        send(process, number)
    except OSError as error:
        log.error("process.not_signalled", pid=process.pid, signal=number, why=str(error))
