"""Which physical cluster answers under a name: nothing is done or told of another one."""

from __future__ import annotations

from collections.abc import Callable

from federation.api.names import ActiveReason
from federation.edge.errors import Forbidden, NotFound
from federation.edge.kube import KubeClient
from federation.edge.resources import NAMESPACES
from manager.origin import IDENTITY_NAMESPACE
from manager.protocol import ClusterSpec, Health

_ITSELF = (
    "the kubeconfig of {} leads to the management cluster itself (the UID of its namespace"
    f" {IDENTITY_NAMESPACE} is the same): a copy there would have the name of its Job. Delete this"
    " MultiKueueCluster, or correct its kubeconfig. To run Jobs on the management cluster start an"
    " agent beside the manager, for ClusterQueues without a MultiKueue check (docs/local-queues.md)"
)


class PhysicalCluster:
    """The one that has to answer is the one asked for, or the first that was seen. `on_change` is
    called when another one is seen, `on_other` with how that is shown when it is a wrong one.
    """

    def __init__(
        self, spec: ClusterSpec, on_change: Callable[[], None], on_other: Callable[[Health], None]
    ) -> None:
        self.seen = ""
        """The one that answered last; '' as long as that is not known."""
        self.wrong: Health | None = None
        """Why it is not to be worked with; None if it is."""
        if spec.identity:
            text = "it is not known yet which physical cluster this is"
            self.wrong = Health(False, ActiveReason.OTHER_CLUSTER.value, text)
        self._spec, self._wanted = spec, spec.identity
        self._on_change, self._on_other = on_change, on_other

    async def is_meant(self, client: KubeClient) -> bool:
        """Look, and say whether it is the right one. Raises ApiError."""
        await self.look(client)
        return self.wrong is None

    async def look(self, client: KubeClient) -> None:
        """Look which one answers. The UID of kube-system is made with it and stays. Raises ApiError
        if that cannot be told.
        """
        try:
            found = await client.get(NAMESPACES, IDENTITY_NAMESPACE)
        except (NotFound, Forbidden) as error:
            if self._wanted:
                self._is_wrong(f"it cannot be told which physical cluster this is: {error}")
            else:
                self.wrong = None
            return
        identity, name = str(found["metadata"]["uid"]), self._spec.name
        if identity == self._spec.management:
            self._is_wrong(_ITSELF.format(name), ActiveReason.MANAGEMENT_CLUSTER)
            return
        self._wanted = self._wanted or identity
        if identity != self.seen:
            self.seen = identity
            self._on_change()
        if identity == self._wanted:
            self.wrong = None
        else:
            self._is_wrong(
                f"another physical cluster ({identity}) answers under the name {name}"
                f" than before ({self._wanted}): what is bound to that one is given up first"
            )

    def _is_wrong(self, why: str, reason: ActiveReason = ActiveReason.OTHER_CLUSTER) -> None:
        self.wrong = Health(False, reason.value, why)
        self._on_other(self.wrong)
