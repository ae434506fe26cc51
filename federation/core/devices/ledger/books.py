"""The sums of the ledger: by host and card, and by namespace, changed one holding at a time."""

from __future__ import annotations

from collections.abc import Mapping

from federation.core.devices.cards import Host, HostUse
from federation.core.devices.ledger.cards import HostBook, Unnamed
from federation.core.devices.ledger.holding import Holding, Owner
from federation.core.devices.ledger.spaces import Spaces, by_vendor


class Books:
    """Who holds what, and the sums of it. `changed` are the hosts to look at again."""

    def __init__(self) -> None:
        self.holdings: dict[Owner, Holding] = {}
        self.spaces = Spaces()
        self.changed: set[str] = set()
        self._hosts: dict[str, HostBook] = {}

    def put(self, owner: Owner, holding: Holding | None) -> None:
        """Count what an owner holds now instead of what it held; None is nothing."""
        old = self.holdings.get(owner)
        if old == holding:
            return
        if old is not None:
            del self.holdings[owner]
            charged = self._book(old.host).remove(old)
            self.spaces.remove(old.namespace, by_vendor(old, charged))
            self._looked_at(old.host)
        if holding is not None:
            self.holdings[owner] = holding
            charged = self._book(holding.host).add(holding)
            self.spaces.add(holding.namespace, by_vendor(holding, charged))
            self.changed.add(holding.host)

    def register(self, name: str, host: Host | None) -> None:
        """What a node says of its cards; None if it is gone."""
        book = self._book(name)
        if book.host != host:
            book.register(host)
            self._looked_at(name)

    def fence(self, host: str, card: str, key: str, why: str) -> None:
        """See `HostBook.fence`."""
        if self._book(host).fence(card, key, why):
            self._looked_at(host)

    def doubt(self, pod: str, old: tuple[str, str] | None, new: tuple[str, str] | None) -> None:
        """A pod's reason to fence a host, instead of the one before."""
        if old is not None:
            self.fence(old[0], "", pod, "")
        if new is not None:
            self.fence(new[0], "", pod, new[1])

    def unnamed(
        self, pod: str, old: tuple[str, Unnamed] | None, new: tuple[str, Unnamed] | None
    ) -> None:
        """Cards of a host that a pod has and nobody named, instead of those before."""
        if old is not None and self._book(old[0]).unnamed(pod, {}):
            self._looked_at(old[0])
        if new is not None and self._book(new[0]).unnamed(pod, new[1]):
            self._looked_at(new[0])

    def use(self, name: str) -> HostUse | None:
        """A host as it is now; None if it is not registered."""
        book = self._hosts.get(name)
        return None if book is None else book.use()

    def hosts(self) -> list[str]:
        """Those that are registered, in order of name."""
        return sorted(name for name, book in self._hosts.items() if book.host is not None)

    def holders(self, host: str, uuid: str) -> Mapping[Owner, Holding]:
        """Who holds a card."""
        book = self._hosts.get(host)
        return {owner: self.holdings[owner] for owner in (book.holders(uuid) if book else ())}

    def nameless(self, host: str) -> Mapping[Owner, Unnamed]:
        """Who has cards there that nobody has named."""
        book = self._hosts.get(host)
        return book.nameless() if book else {}

    def _book(self, name: str) -> HostBook:
        book = self._hosts.get(name)
        if book is None:
            book = self._hosts[name] = HostBook(name)
        return book

    def _looked_at(self, name: str) -> None:
        self.changed.add(name)
        if not self._hosts[name]:
            del self._hosts[name]
