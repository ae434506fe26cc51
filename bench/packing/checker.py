"""Counts for itself what was placed where; shares nothing with the code that decides."""

from __future__ import annotations

from collections.abc import Sequence

from bench.packing.trace import MILLI, Node, Pod


class OverCommitted(AssertionError):
    """A placement took what was not there."""


class Checker:
    """What is left of each node: CPU, memory, and thousandths of each card."""

    def __init__(self, nodes: Sequence[tuple[str, Node]]) -> None:
        self._nodes = dict(nodes)
        self._cpu = {name: node.cpu_milli for name, node in nodes}
        self._memory = {name: node.memory_mib for name, node in nodes}
        self._cards = {name: [MILLI] * node.cards for name, node in nodes}
        self.allocated = 0
        """Thousandths of cards given out."""

    def place(self, pod: Pod, name: str, grants: Sequence[tuple[int, int]]) -> None:
        """Count a placement; `grants` are number of the card and thousandths. OverCommitted."""
        node, cards = self._nodes[name], self._cards[name]
        self._cpu[name] -= pod.cpu_milli
        self._memory[name] -= pod.memory_mib
        problems = [
            (self._cpu[name] < 0, "CPU"),
            (self._memory[name] < 0, "memory"),
            (bool(pod.models) and node.model not in pod.models, f"model {node.model}"),
            (len({card for card, _ in grants}) != pod.cards, f"{len(grants)} cards"),
            (any(milli != pod.gpu_milli for _, milli in grants), "the share of a card"),
        ]
        for card, milli in grants:
            if pod.gpu_milli == MILLI:
                problems.append((cards[card] != MILLI, f"card {card} was to be its own"))
            cards[card] -= milli
            problems.append((cards[card] < 0, f"card {card}"))
            self.allocated += milli
        wrong = [what for is_so, what in problems if is_so]
        if wrong:
            raise OverCommitted(f"{pod} on {name}: {', '.join(wrong)}")
