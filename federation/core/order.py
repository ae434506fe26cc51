"""The order in which the heads of the queues are processed in one cycle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from federation.core.nomination import Nominee
from federation.core.quota import QuotaNode
from federation.core.shares import Share, share_of
from federation.core.snapshot import Snapshot
from federation.core.types import Pending


def in_order(nominees: Sequence[Nominee], snapshot: Snapshot) -> Iterator[Nominee]:
    """The nominees, each chosen when it is asked for: under fair sharing what was admitted before
    counts.
    """
    if snapshot.rules.fair_sharing:
        return _by_share(nominees, snapshot)
    return iter(sorted(nominees, key=lambda e: (e.borrowing, *_by_age(e.item))))


def _by_age(item: Pending) -> tuple[int, float, str]:
    return (-item.priority, item.created, item.uid)


def _by_share(nominees: Sequence[Nominee], snapshot: Snapshot) -> Iterator[Nominee]:
    """Tree by tree: the winner of a tournament among the children of each cohort."""
    trees: dict[int, tuple[QuotaNode, dict[str, Nominee]]] = {}
    for nominee in sorted(nominees, key=lambda e: e.node.name):
        root = nominee.node.root
        trees.setdefault(id(root), (root, {}))[1][nominee.node.name] = nominee
    for root, waiting in trees.values():
        while waiting:
            first = _winner(root, waiting, _shares(waiting, snapshot))
            assert first is not None
            del waiting[first.node.name]
            yield first


_Shares = dict[tuple[int, str], tuple[bool, Share]]
"""By node and queue of the nominee: whether the node would borrow what the nominee asks for, and
its share, with the nominee's usage added."""


def _shares(waiting: dict[str, Nominee], snapshot: Snapshot) -> _Shares:
    found: _Shares = {}
    for name, nominee in waiting.items():
        nominee.node.add_all(nominee.usage)
        node: QuotaNode | None = nominee.node
        while node is not None:
            borrows = not node.within_nominal(nominee.usage)
            found[id(node), name] = (borrows, share_of(node, snapshot.tree.lendable))
            node = node.parent
        nominee.node.remove_all(nominee.usage)
    return found


def _winner(node: QuotaNode, waiting: dict[str, Nominee], shares: _Shares) -> Nominee | None:
    """The nominee that a node sends up; of full ties the first by cohort, then by queue name."""
    if node.height == 0:
        nominee = waiting.get(node.name)  # an empty cohort may have the name of a queue
        return nominee if nominee is not None and nominee.node is node else None
    best: Nominee | None = None
    best_key: tuple[object, ...] = ()
    for child in (*node.cohorts, *node.queues):
        nominee = _winner(child, waiting, shares)
        if nominee is None:
            continue
        key = (*shares[id(child), nominee.node.name], *_by_age(nominee.item))
        if best is None or key < best_key:
            best, best_key = nominee, key
    return best
