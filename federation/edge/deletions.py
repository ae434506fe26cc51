"""Which objects are known to be deleted, so that late news of them does not bring them back.

The answer to a write and the watch come over different connections. When an object is deleted
just after the write, the watch can be first; the answer then describes what is no more.
"""

from __future__ import annotations

from collections import OrderedDict

FOR_EVER = 2**63
"""As the version of a deletion: an object of this UID is never seen again."""

_KEPT = 10_000


class Deletions:
    """The deletions of one resource type seen last, by UID. Only answers in flight need them."""

    def __init__(self, keep: int = _KEPT) -> None:
        self._versions: OrderedDict[str, int] = OrderedDict()
        self._keep = keep

    def note(self, uid: str, version: int) -> None:
        """The object left the collection at `version` (of the event, or of a list without it)."""
        self._versions[uid] = max(version, self._versions.get(uid, 0))
        self._versions.move_to_end(uid)
        if len(self._versions) > self._keep:
            self._versions.popitem(last=False)

    def __contains__(self, uid: str) -> bool:
        """Whether the deletion of an object was seen."""
        return uid in self._versions

    def covers(self, uid: str, version: int) -> bool:
        """Whether a state of an object is older than its deletion.

        A newer one is possible: an object that gets back the label by which it is selected.
        """
        return version <= self._versions.get(uid, -1)
