"""The order in which the heads of the queues are processed in one cycle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from federation.core.nomination import Entry
from federation.core.quota import QuotaNode
from federation.core.shares import Share, share_of
from federation.core.snapshot import Snapshot
from federation.core.types import Pending


def in_order(entries: Sequence[Entry], snapshot: Snapshot) -> Iterator[Entry]:
    """The entries, each chosen when it is asked for: under fair sharing what was admitted before
    counts.
    """
    if snapshot.rules.fair_sharing:
        return _by_share(entries, snapshot)
    return iter(sorted(entries, key=lambda e: (e.borrowing, *_by_age(e.item))))


def _by_age(item: Pending) -> tuple[int, float, str]:
    return (-item.priority, item.created, item.uid)


def _by_share(entries: Sequence[Entry], snapshot: Snapshot) -> Iterator[Entry]:
    """Tree by tree: the winner of a tournament among the children of each cohort."""
    trees: dict[int, tuple[QuotaNode, dict[str, Entry]]] = {}
    for entry in sorted(entries, key=lambda e: e.node.name):
        root = entry.node.root
        trees.setdefault(id(root), (root, {}))[1][entry.node.name] = entry
    for root, waiting in trees.values():
        while waiting:
            first = _winner(root, waiting, _shares(waiting, snapshot))
            assert first is not None
            del waiting[first.node.name]
            yield first


_Shares = dict[tuple[int, str], tuple[bool, Share]]
"""By node and queue of the entry: whether the node would borrow what the entry asks for, and its
share, with the entry's usage added."""


def _shares(waiting: dict[str, Entry], snapshot: Snapshot) -> _Shares:
    found: _Shares = {}
    for name, entry in waiting.items():
        entry.node.add_all(entry.usage)
        node: QuotaNode | None = entry.node
        while node is not None:
            borrows = not node.within_nominal(entry.usage)
            found[id(node), name] = (borrows, share_of(node, snapshot.tree.lendable))
            node = node.parent
        entry.node.remove_all(entry.usage)
    return found


def _winner(node: QuotaNode, waiting: dict[str, Entry], shares: _Shares) -> Entry | None:
    """The entry that a node sends up; of full ties the first by cohort, then by queue name."""
    if node.height == 0:
        entry = waiting.get(node.name)
        return entry if entry is not None and entry.node is node else None  # or an empty cohort
    best: Entry | None = None
    best_key: tuple[object, ...] = ()
    for child in (*node.cohorts, *node.queues):
        entry = _winner(child, waiting, shares)
        if entry is None:
            continue
        key = (*shares[id(child), entry.node.name], *_by_age(entry.item))
        if best is None or key < best_key:
            best, best_key = entry, key
    return best
