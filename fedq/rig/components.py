"""Command lines of the components of one cluster.

The management cluster has neither scheduler nor kwok, unless it is to have nodes: every queued Job
there is suspended and handed to Fedq by `managedBy`, so no pod ever exists. A Job that slips
through to a pod stays Pending, where a test can see it. Its controller manager is needed: garbage
collection of owned Workloads, namespace deletion, `ttlSecondsAfterFinished`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fedq.rig.api import plain_ready, socket_ready
from fedq.rig.layout import Layout
from fedq.rig.network import LOOPBACK
from fedq.rig.scheduling import CLIENT_BURST, CLIENT_QPS
from fedq.rig.supervisor import Spec

STAGES = Path(__file__).parent / "stages.yaml"

CONTROLLERS = (
    "job-controller",
    "namespace-controller",
    "garbage-collector-controller",
    "node-lifecycle-controller",
    "taint-eviction-controller",
    "pod-garbage-collector-controller",
    "ttl-after-finished-controller",
    "clusterrole-aggregation-controller",
    "resourceclaim-controller",
)
"""Those that Jobs, their pods and claims meet, lost nodes included, and what fills the roles `edit`
and `view`. The rest would cost memory and watch things that nobody makes here."""

COLLECT_LATE = {"GOGC": "400"}
"""Go's collector takes a quarter of an API server's time on the small heap that it has here. The
heap may grow five times instead of twice: 1 + 2 idle clusters take 1.3 GB instead of 1.0."""

CLIENT_RATE = [f"--kube-api-qps={CLIENT_QPS}", f"--kube-api-burst={CLIENT_BURST}"]


def waves(layout: Layout, binaries: dict[str, str]) -> list[list[Spec]]:
    """Components in starting order; those of one wave do not need each other."""
    clients = [_controller_manager]
    if layout.runs_pods:
        clients += [_scheduler, _kwok]
    return [
        [_spec(layout, binaries, make) for make in wave]
        for wave in ([_etcd], [_apiserver], clients)
    ]


Made = tuple[str, list[str], Callable[[], bool]]


def _spec(layout: Layout, binaries: dict[str, str], make: Callable[[Layout], Made]) -> Spec:
    tool, flags, ready = make(layout)
    command = [*layout.inside, binaries.get(tool, tool), *flags]
    return Spec(f"{layout.name}/{tool}", command, ready, COLLECT_LATE)


def _etcd(layout: Layout) -> Made:
    client = f"unix://{layout.etcd_socket}"
    peer = f"https://127.0.0.1:{layout.ports['etcd-peer']}"
    flags = [
        f"--name={layout.name}",
        f"--data-dir={layout.folder / 'etcd'}",
        f"--listen-client-urls={client}",
        # Only other members would read it, and it has to be an address.
        "--advertise-client-urls=http://127.0.0.1:1",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster={layout.name}={peer}",
        # Nothing here must survive the machine, and a disk's fsync would set the pace.
        "--unsafe-no-fsync",
        "--enable-grpc-gateway=false",
        "--log-level=warn",
    ]
    flags += [
        f"--peer-cert-file={layout.server}",
        f"--peer-key-file={layout.server}",
        f"--peer-trusted-ca-file={layout.ca}",
        "--peer-client-cert-auth",
    ]
    return "etcd", flags, lambda: socket_ready(layout.etcd_socket, "/health")


def _apiserver(layout: Layout) -> Made:
    flags = [
        *_serving(layout, "kube-apiserver"),
        # A loopback address cannot be an endpoint of the `kubernetes` Service.
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        f"--etcd-servers=unix://{layout.etcd_socket}",
        f"--client-ca-file={layout.ca}",
        "--authorization-mode=RBAC",
        # No controller makes the `default` service accounts, which this plugin would ask of
        # every pod. Service accounts that somebody makes work, with their tokens.
        "--disable-admission-plugins=ServiceAccount",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={layout.token_key}",
        f"--service-account-signing-key-file={layout.token_key}",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--allow-privileged",
        "--profiling=false",
        # Half the default of an hour: events are read at once or never, and live in memory.
        "--event-ttl=30m",
    ]
    return "kube-apiserver", flags, lambda: layout.endpoint().ready("/readyz")


def _controller_manager(layout: Layout) -> Made:
    use = "kube-controller-manager"
    flags = [
        *_serving(layout, use),
        *_client(layout, use),
        f"--controllers={','.join(CONTROLLERS)}",
        # Each controller acts under its own RBAC role, as in a real cluster.
        "--use-service-account-credentials",
        "--concurrent-job-syncs=10",
        "--concurrent-gc-syncs=10",
    ]
    return use, flags, lambda: layout.endpoint(use).ready("/healthz")


def _scheduler(layout: Layout) -> Made:
    use = "kube-scheduler"
    flags = [
        *_serving(layout, use),
        *_reviews(layout, use),
        f"--config={layout.scheduler_config}",
    ]
    return use, flags, lambda: layout.endpoint(use).ready("/healthz")


def _kwok(layout: Layout) -> Made:
    port = layout.ports["kwok"]
    flags = kwok_flags(layout.kubeconfig("kwok"), port, layout.host)
    flags.append("--manage-all-nodes")
    return "kwok", flags, lambda: plain_ready(port, "/healthz", layout.host)


def kwok_flags(kubeconfig: Path, port: int, host: str = LOOPBACK) -> list[str]:
    """Flags of kwok on any kind of cluster, but for the choice of nodes."""
    return [
        f"--kubeconfig={kubeconfig}",
        f"--config={STAGES}",
        f"--server-address={host}:{port}",
        "--node-lease-duration-seconds=40",
        "--cidr=10.128.0.0/9",
        "--v=ERROR",
    ]


def _serving(layout: Layout, use: str) -> list[str]:
    return [
        f"--bind-address={layout.host}",
        f"--secure-port={layout.ports[use]}",
        f"--tls-cert-file={layout.server}",
        f"--tls-private-key-file={layout.server}",
    ]


def _client(layout: Layout, user: str) -> list[str]:
    return [
        f"--kubeconfig={layout.kubeconfig(user)}",
        *_reviews(layout, user),
        # One replica: an election would only add seconds to the start and writes afterwards.
        "--leader-elect=false",
        *CLIENT_RATE,
    ]


def _reviews(layout: Layout, user: str) -> list[str]:
    """As whom a component asks the API server who its own callers are."""
    kubeconfig = layout.kubeconfig(user)
    return [
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
    ]
