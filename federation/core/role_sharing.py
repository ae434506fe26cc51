"""Which program on a management cluster has a ClusterQueue: the manager, or the agent beside it.

Kueue's rule: the queue has an admission check of MultiKueue, and its jobs are sent to worker
clusters, or it has none, and they run where they are. Whose a job is was settled when it was made
(label `fedq.io/local`), and is never changed: a queue that changes sides leaves jobs behind, which
run to their end where they are, or wait and are told why.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace

from federation.core.types import ClusterQueue


def runs_here(of_multikueue: Iterable[bool | None]) -> bool | None:
    """Whether the jobs of a queue run on the management cluster. Of each of its admission checks it
    is told whether that is one of MultiKueue, None where it does not exist; so is the answer where
    it hangs on that.
    """
    found = set(of_multikueue)
    if True in found:
        return False
    return None if None in found else True


def apart(queues: Mapping[str, ClusterQueue], others: Container[str]) -> Mapping[str, ClusterQueue]:
    """The queues as one program counts them. Those of the other one lend nothing to its own, since
    nobody would count that twice: they are taken out of their cohorts.
    """
    moved = {n: replace(q, cohort="") for n, q in queues.items() if n in others and q.cohort}
    return {**queues, **moved} if moved else queues
