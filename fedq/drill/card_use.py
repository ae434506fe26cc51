"""Whether runs used more of a card than there is, from what each run says that it was given."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from fedq.drill.runs import Run

CORES = 100.0
"""Percent of the compute of a card."""
SLACK = 1e-6


def overused(found: Sequence[Run], memory: Mapping[str, float]) -> list[str]:
    """A sentence for each card and resource of which too much was in use, with the first moment.

    A card is told apart by cluster and UUID. `memory` is MiB by UUID; others are not checked.
    """
    edges: dict[tuple[str, str], list[tuple[float, float, float]]] = defaultdict(list)
    for run in found:
        for uuid, cores, mib in run.subject.devices:
            for since, until in run.spans:
                card = edges[run.subject.cluster, uuid]
                card += [(since, cores, mib), (until, -cores, -mib)]
    texts = []
    for (cluster, uuid), changes in sorted(edges.items()):
        limits = (CORES, memory.get(uuid, float("inf")))
        used = [0.0, 0.0]
        told: set[int] = set()
        # What ends makes room for what starts at the same moment.
        for moment, *amounts in sorted(changes):
            for index, unit in enumerate(("% of its cores", "MiB")):
                used[index] += amounts[index]
                if used[index] > limits[index] + SLACK and index not in told:
                    told.add(index)
                    texts.append(
                        f"card {uuid} on {cluster}: {used[index]:g} {unit} in use at {moment:.2f}, "
                        f"there are {limits[index]:g}"
                    )
    return texts
