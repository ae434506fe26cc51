"""Runs as they really were: when a process of a job ran, worked out from its own records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from fedq.drill.records import BEAT, PAUSE, Kind, Record, Subject

Span = tuple[float, float]
"""From and until, in seconds of CLOCK_BOOTTIME."""


@dataclass(frozen=True, slots=True)
class Run:
    """One process of one pod. `spans` are the times in which it ran, pauses left out, in order.

    `exit` is what it said when it ended; None for one that was killed. `open` is true while it
    still runs.
    """

    subject: Subject
    spans: tuple[Span, ...]
    exit: int | None = None
    open: bool = False

    @property
    def start(self) -> float:
        """When it began."""
        return self.spans[0][0]

    @property
    def end(self) -> float:
        """When it ended, or was last known to run."""
        return self.spans[-1][1]

    @property
    def seconds(self) -> float:
        """For how long it ran."""
        return sum(until - since for since, until in self.spans)

    @property
    def succeeded(self) -> bool:
        """Whether it came to its end with exit code 0."""
        return self.exit == 0

    def runs_at(self, moment: float) -> bool:
        """Whether it ran then; at the very moment of its end it does not any more."""
        return any(since <= moment < until for since, until in self.spans)


def runs(records: Iterable[Record], now: float) -> list[Run]:
    """The runs, by their start. `now` is CLOCK_BOOTTIME of when the records were read.

    Where the end of a process is not known exactly, the latest possible one is taken: a heartbeat
    period after its last record, or when somebody saw that it was gone if that was earlier. In the
    same way a pause counts from one period after the last heartbeat before it.
    """
    groups: list[list[Record]] = []
    latest: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        key = (record.subject.cluster, record.subject.pod)
        if record.kind is Kind.START:
            latest[key] = [record]
            groups.append(latest[key])
        elif record.kind is not Kind.DAMAGED:
            latest[key].append(record)
    return sorted((_run(group, now) for group in groups), key=lambda run: (run.start, run.end))


def _run(records: list[Record], now: float) -> Run:
    start = records[0].at
    stop = next((record for record in records if record.kind is Kind.STOP), None)
    gone = next((record.at for record in records if record.kind is Kind.GONE), None)
    pauses = [(r.since + BEAT, r.at) for r in records if r.kind is Kind.PAUSED]
    last = max(record.at for record in records if record.kind is not Kind.GONE)
    alive = stop is None and gone is None and now - last <= PAUSE
    if stop is not None:
        end = stop.at
    elif gone is not None:
        end = max(last, min(last + BEAT, gone))
    else:
        end = max(last, now) if alive else last + BEAT
    spans = without((start, end), pauses)
    return Run(records[0].subject, spans, None if stop is None else stop.exit, alive)


def without(whole: Span, pauses: Iterable[Span]) -> tuple[Span, ...]:
    """What is left of a span; at least an empty span at its start."""
    edges = [whole[0]]
    for since, until in sorted(pauses):
        if since < until:
            edges += [min(max(since, edges[-1]), whole[1]), min(max(until, edges[-1]), whole[1])]
    edges.append(max(whole[1], edges[-1]))
    spans = tuple(span for span in list(pairwise(edges))[::2] if span[0] < span[1])
    return spans or ((whole[0], whole[0]),)
