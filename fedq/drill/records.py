"""What the processes of jobs write of themselves, and how it is read back.

One file per pod, `<history>/<cluster>/<pod uid>.jsonl`, made by the process itself, which does not
start if it is there already; a JSON object per line:

    {"t": "start", "job": UID, "attempt": 1, "epoch": 1, "pod": UID, "name": "ns/pod", "cluster": C,
     "policy": "stop", "gpus": 2, "devices": {"GPU-x": [cores, MiB]}, "boot": ID, "pid": 7,
     "ticks": 1234, "b": SECONDS, "w": SECONDS}
    {"t": "alive", "b": …}                       every BEAT seconds
    {"t": "paused", "from": LAST_BEAT, "b": …}   it stood still for PAUSE seconds or longer
    {"t": "term", "b": …}                        it got SIGTERM
    {"t": "stop", "exit": 0, "reason": "done", "b": …, "w": …}
    {"t": "claimed"|"committed"|"refused", "b": …}   with FEDQ_CHECKPOINTS: what its store said
    {"t": "gone", "b": …}                        by whoever started it: the process is no more

`b` is CLOCK_BOOTTIME, the same for all processes of one machine; `w` is wall time, for people.
Of a commit it is the moment before it was tried, of a claim the one after it was made.
Start, stop and gone are on disk when the write returns; a heartbeat need not outlive the machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from fedq.rig.pods.process import BEAT, PAUSE

__all__ = ["BEAT", "NOBODY", "PAUSE", "Kind", "Record", "Subject", "parse", "read_history"]


class Kind(StrEnum):
    """Kinds of records."""

    START = "start"
    ALIVE = "alive"
    PAUSED = "paused"
    TERM = "term"
    STOP = "stop"
    CLAIMED = "claimed"
    """It holds the checkpoint token: no earlier attempt can commit anything from now on."""
    COMMITTED = "committed"
    REFUSED = "refused"
    """The store refused a commit, as a later attempt holds the token."""
    GONE = "gone"
    DAMAGED = "damaged"
    """Not written by anybody: a line that cannot be read, though others follow it."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Which run a record is about. `devices` are (UUID, cores, MiB of memory), per card."""

    job: str
    attempt: int
    pod: str
    cluster: str
    epoch: int = 0
    name: str = ""
    policy: str = "stop"
    gpus: float = 0.0
    devices: tuple[tuple[str, float, float], ...] = ()


NOBODY: Final = Subject("", 0, "", "")


@dataclass(frozen=True, slots=True)
class Record:
    """One line. `at` is CLOCK_BOOTTIME in seconds; `since` the last heartbeat before a pause."""

    kind: Kind
    subject: Subject
    at: float
    since: float = 0.0
    exit: int | None = None
    reason: str = ""


def read_history(folder: Path) -> list[Record]:
    """All records below `folder`, those of one pod in the order in which they were written.

    What a process was killed in the middle of writing is left out. Any other line that makes no
    sense becomes a record of kind DAMAGED whose reason says where it stands.
    """
    return [
        record
        for path in sorted(folder.glob("*/*.jsonl"))
        for record in parse(path.read_bytes(), f"{path.parent.name}/{path.name}")
    ]


def parse(content: bytes, origin: str) -> Iterator[Record]:
    """The records of one file; `origin` names it in the reasons of damaged ones."""
    subject = NOBODY
    lines = content.split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            fields = json.loads(line)
            if fields["t"] == Kind.START:
                subject = _subject(fields)
            yield _record(fields, subject)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if number == len(lines):  # no newline after it: the write was cut off
                return
            yield Record(Kind.DAMAGED, subject, 0.0, reason=f"{origin}:{number}: {error!r}")


def _subject(fields: dict[str, Any]) -> Subject:
    devices = sorted(dict(fields.get("devices") or {}).items())
    return Subject(
        job=str(fields["job"]),
        attempt=int(fields["attempt"]),
        pod=str(fields["pod"]),
        cluster=str(fields["cluster"]),
        epoch=int(fields.get("epoch", 0)),
        name=str(fields.get("name", "")),
        policy=str(fields.get("policy") or "stop"),
        gpus=float(fields.get("gpus", 0)),
        devices=tuple((uuid, float(cores), float(memory)) for uuid, (cores, memory) in devices),
    )


def _record(fields: dict[str, Any], subject: Subject) -> Record:
    kind = Kind(fields["t"])
    if subject is NOBODY or kind is Kind.DAMAGED:
        raise ValueError("no start record before it")
    return Record(
        kind,
        subject,
        at=float(fields["b"]),
        since=float(fields["from"]) if kind is Kind.PAUSED else 0.0,
        exit=int(fields["exit"]) if kind is Kind.STOP else None,
        reason=str(fields.get("reason", "")),
    )
