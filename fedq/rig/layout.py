"""Files and ports of one local cluster."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fedq.rig.api import Endpoint
from fedq.rig.kubeconfig import write_kubeconfig
from fedq.rig.network import LOOPBACK
from fedq.rig.pki import Authority, signing_key
from fedq.rig.scheduling import write_scheduler_config

PORTS = ("etcd-peer", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")

USERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "admin": ("kubernetes-admin", ("system:masters",)),
    "kube-controller-manager": ("system:kube-controller-manager", ()),
    "kube-scheduler": ("system:kube-scheduler", ()),
    "kwok": ("system:kwok", ()),
}
"""Kubeconfig name → user and groups in the certificate. Each component is only itself."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where one cluster's things are; `prepare` makes them.

    Attributes:
        folder: keys, kubeconfigs and etcd's data of this cluster.
        sockets: a short and private folder for Unix sockets, common to the clusters of a rig.
        authority: folder of the certificate authority, common to the clusters of a rig.
        ports: use → TCP port on `host`.
        inside: what stands before a command so that it runs where the cluster is.
        runs_pods: whether it has nodes, as workers do.
    """

    name: str
    folder: Path
    sockets: Path
    authority: Path
    ports: dict[str, int]
    host: str = LOOPBACK
    inside: tuple[str, ...] = ()
    runs_pods: bool = True

    @property
    def ca(self) -> Path:
        """Certificate that all servers and clients of the rig trust."""
        return self.authority / "ca.crt"

    @property
    def server(self) -> Path:
        """Key and serving certificate, shared by the servers of the cluster."""
        return self.folder / "pki" / "server.pem"

    @property
    def token_key(self) -> Path:
        """Key that signs service-account tokens."""
        return self.folder / "pki" / "service-accounts.key"

    @property
    def api_url(self) -> str:
        """Base URL of the API server."""
        return f"https://{self.host}:{self.ports['kube-apiserver']}"

    @property
    def etcd_socket(self) -> Path:
        """Where etcd listens: file permissions keep others out, at no cost per request."""
        return self.sockets / f"{self.name}.etcd"

    def identity(self, user: str) -> Path:
        """Client certificate and key of a user of `USERS`."""
        return self.folder / "pki" / f"{user}.pem"

    def kubeconfig(self, user: str) -> Path:
        """The kubeconfig of a user of `USERS`."""
        return self.folder / f"{user}.kubeconfig"

    @property
    def scheduler_config(self) -> Path:
        """Configuration of the scheduler of a worker."""
        return self.folder / "scheduler.yaml"

    def endpoint(self, use: str = "kube-apiserver") -> Endpoint:
        """A client of one of the servers, as admin."""
        return Endpoint(self.ports[use], self.ca, self.identity("admin"), self.host)

    def prepare(self, authority: Authority) -> None:
        """Make what is missing of keys, certificates and kubeconfigs."""
        authority.server(self.server, self.host)
        signing_key(self.token_key)
        for user, (common_name, groups) in USERS.items():
            identity = authority.client(self.identity(user), common_name, groups)
            write_kubeconfig(
                self.kubeconfig(user),
                cluster=self.name,
                server=self.api_url,
                ca=self.ca,
                identity=identity,
                user=user,
            )
        if self.runs_pods:
            write_scheduler_config(self.scheduler_config, self.kubeconfig("kube-scheduler"))
