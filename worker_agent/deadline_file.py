"""The note of when the lease ends: for the next start of the agent, and for guards on nodes.

JSON: `bootId` tells which start of the machine the clock belongs to, `deadline` and `renewed` are
seconds of CLOCK_BOOTTIME, `epoch` and `cluster` say what the lease is of. `kill` is how long what
stops may take to end (seconds), for guards. `mark` and `breaks` are those of the Tenure.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import structlog

from federation.core.failover import LONGEST
from federation.core.holding import Lease, Tenure
from federation.edge.files import write_atomic

log = structlog.get_logger(__name__)


class DeadlineFile:
    """One file; written whole, so that whoever reads it sees one lease and no mixture."""

    def __init__(self, path: Path, cluster: str, boot_id: str) -> None:
        self._path, self._cluster, self._boot_id = path, cluster, boot_id

    def read(self, now: float) -> Lease:
        """The lease that was noted, at `now`; an unknown one if there is no note of it here.

        A deadline that has passed is not known either: an agent elsewhere may have renewed since.
        """
        try:
            body = json.loads(self._path.read_text())
            if (body["bootId"], body["cluster"]) != (self._boot_id, self._cluster):
                return Lease()
            renewed, deadline = float(body["renewed"]), float(body["deadline"])
            epoch, breaks = int(body["epoch"]), int(body.get("breaks", 0))
            mark = str(body.get("mark", ""))
        except FileNotFoundError:
            return Lease()
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            log.warning("deadline.unreadable", file=str(self._path), why=str(error))
            return Lease()
        sound = math.isfinite(renewed) and renewed <= now and 0 < epoch < 10**9
        if not sound or deadline - renewed > LONGEST:
            return Lease()
        if not now < deadline:
            return Lease(epoch, seen=epoch)
        return Lease(epoch, Tenure(epoch, renewed, deadline, mark, breaks), seen=epoch)

    def write(self, lease: Lease) -> str:
        """Note a lease; why that could not be done ('' if it was). Then the one before stands,
        which ends sooner.
        """
        if lease.tenure is None:
            return ""
        body = {
            "bootId": self._boot_id,
            "cluster": self._cluster,
            "epoch": lease.tenure.epoch,
            "renewed": lease.tenure.renewed,
            "deadline": lease.tenure.deadline,
            "kill": lease.terms.kill,
            "mark": lease.tenure.mark,
            "breaks": lease.tenure.breaks,
        }
        try:
            write_atomic(self._path, json.dumps(body), 0o644)
        except OSError as error:
            return f"{self._path} cannot be written: {error.strerror or error}"
        return ""
