"""The controllers of others that a rig can run: where their manifests are, how they start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from federation.api import yaml_text
from fedq.rig.tools import APPWRAPPER as APPWRAPPER_GROUP
from fedq.rig.tools import JOBSET as JOBSET_GROUP
from fedq.rig.tools import KUBERAY as KUBERAY_GROUP
from fedq.rig.tools import KUEUE as KUEUE_GROUP
from fedq.rig.tools import LWS as LWS_GROUP
from fedq.rig.tools import MPI as MPI_GROUP
from fedq.rig.tools import MXJOB as MXJOB_GROUP
from fedq.rig.tools import OLDER_KUEUE as OLDER_KUEUE_GROUP
from fedq.rig.tools import SPARK as SPARK_GROUP
from fedq.rig.tools import TRAINER as TRAINER_GROUP
from fedq.rig.tools import TRAINING as TRAINING_GROUP
from fedq.rig.tools import VOLCANO as VOLCANO_GROUP
from fedq.rig.tools import Group

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Seat:
    """Where one of them is on a cluster: its addresses, a folder with `tls.crt` and `tls.key`, the
    `ca.crt` that these are signed by, and the program's `kubeconfig`.
    """

    host: str
    health: int
    webhook: int
    folder: Path


@dataclass(frozen=True, slots=True)
class Started:
    """What a program is started with."""

    arguments: list[str]
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Controller:
    """One of them.

    Attributes:
        group: what it is built with.
        program: the one of the group that it is; '' if there is no other.
        module: Go module that has its manifests, in the folder `manifests`.
        parts: within that, what kustomize puts together, or files as they are. Several get the
            namespace of `account`; none, if what another one brings is enough.
        chart: a file here with what else it consists of, where only a chart of its module has it.
        account: NAMESPACE:NAME of its ServiceAccount.
        start: what its program is started with.
        health: whether it says on a page that it is ready.
        without: CRDs of its installation that somebody else brings.
        needs: controllers of Kubernetes itself that a rig has not, and this one builds on.
        secret: where it puts the certificate of its webhooks, if it makes that itself; a kubelet
            would mount it.
    """

    group: Group
    module: str
    account: str
    start: Callable[[Seat], Started]
    manifests: str = "config"
    parts: tuple[str, ...] = ("default",)
    chart: str = ""
    health: bool = True
    without: frozenset[str] = frozenset()
    needs: tuple[str, ...] = ()
    secret: str = ""
    program: str = ""

    @property
    def name(self) -> str:
        """Of the program."""
        return self.program or self.group.name

    @property
    def namespace(self) -> str:
        """Where its ServiceAccount is."""
        return self.account.partition(":")[0]

    @property
    def user(self) -> str:
        """Its user name on a cluster."""
        return f"system:serviceaccount:{self.account}"


def _configured(
    api_version: str, certificates: Callable[[Seat], Json]
) -> Callable[[Seat], Started]:
    """Those that read a Configuration, as controller-runtime's scaffold has it."""

    def start(seat: Seat) -> Started:
        given = certificates(seat)
        webhook = {"host": seat.host, "port": seat.webhook, **given.pop("webhook", {})}
        content = {
            "apiVersion": api_version,
            "kind": "Configuration",
            "health": {"healthProbeBindAddress": f"{seat.host}:{seat.health}"},
            "metrics": {"bindAddress": "0"},
            "webhook": webhook,
            "leaderElection": {"leaderElect": False},
            **given,
        }
        file = seat.folder / "config.yaml"
        file.write_text(yaml_text.dump(content))
        return Started([f"--config={file}"], {"TMPDIR": str(seat.folder)})

    return start


def _told_where(seat: Seat) -> Json:
    return {
        "webhook": {"certDir": str(seat.folder)},
        "internalCertManagement": {"enable": False},
    }


_KUEUE_SECRET = "kueue-webhook-server-cert"


def _kueue(seat: Seat) -> Json:
    """For Jobs, with the pace of its own installation. Its visibility server would listen on all
    addresses. It makes its certificate itself: of a given one it wants the metrics' in /etc.
    """
    return {
        "webhook": {"certDir": str(seat.folder)},
        "internalCertManagement": {
            "enable": True,
            "webhookServiceName": "kueue-webhook-service",
            "webhookSecretName": _KUEUE_SECRET,
        },
        "namespace": "kueue-system",
        "clientConnection": {"qps": 50, "burst": 100},
        "integrations": {"frameworks": ["batch/job"]},
        "featureGates": {"VisibilityOnDemand": False, "MultiKueue": False},
    }


def _by_default(seat: Seat) -> Json:
    """It cannot be told where its certificate is: in the folder that controller-runtime takes."""
    folder = seat.folder / "k8s-webhook-server" / "serving-certs"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("tls.crt", "tls.key"):
        if not (file := folder / name).is_symlink():
            file.symlink_to(seat.folder / name)
    return {"certManagement": {"enable": False}}


def _kuberay(seat: Seat) -> Started:
    health = f"--health-probe-bind-address={seat.host}:{seat.health}"
    return Started([health, "--metrics-addr=0", "--enable-leader-election=false"])


def _told_ports(seat: Seat) -> Started:
    """Entry points of ours."""
    ports = [f"--health-port={seat.health}", f"--webhook-port={seat.webhook}"]
    return Started([f"--host={seat.host}", *ports, f"--cert-dir={seat.folder}"])


def _mxjob(seat: Seat) -> Started:
    """It has no webhook, and so does not listen where others of it do."""
    health = f"--health-probe-bind-address={seat.host}:{seat.health}"
    return Started(["--enable-scheme=mxjob", health, "--metrics-bind-address=0"])


def _mpi(seat: Seat) -> Started:
    return Started([])


def _admission(seat: Seat) -> Started:
    """With the webhooks that its installation asks for."""
    paths = ["jobs/mutate", "jobs/validate", "podgroups/validate", "queues/mutate"]
    paths += ["queues/validate", "hypernodes/validate", "cronjobs/validate"]
    return Started(
        [
            f"--kubeconfig={seat.folder / 'kubeconfig'}",
            f"--listen-address={seat.host}",
            f"--port={seat.webhook}",
            f"--tls-cert-file={seat.folder / 'tls.crt'}",
            f"--tls-private-key-file={seat.folder / 'tls.key'}",
            f"--ca-cert-file={seat.folder / 'ca.crt'}",
            f"--webhook-url=https://{seat.host}:{seat.webhook}",
            f"--enabled-admission={','.join('/' + path for path in paths)}",
        ]
    )


def _volcano(seat: Seat) -> Started:
    """Neither listens, but the scheduler on a socket for the level of its log."""
    arguments = [f"--kubeconfig={seat.folder / 'kubeconfig'}", "--leader-elect=false"]
    return Started(arguments, {"DEBUG_SOCKET_DIR": str(seat.folder / "log")})


JOBSET = Controller(
    JOBSET_GROUP,
    "sigs.k8s.io/jobset",
    "jobset-system:jobset-controller-manager",
    _configured("config.jobset.x-k8s.io/v1alpha1", _told_where),
)
LWS = Controller(
    LWS_GROUP,
    "sigs.k8s.io/lws",
    "lws-system:lws-controller-manager",
    _configured("config.lws.x-k8s.io/v1alpha1", _told_where),
    needs=("statefulset-controller",),
)
KUBERAY = Controller(
    KUBERAY_GROUP,
    "github.com/ray-project/kuberay/ray-operator",
    "default:kuberay-operator",
    _kuberay,
)
TRAINING = Controller(
    TRAINING_GROUP,
    "github.com/kubeflow/training-operator",
    "kubeflow:training-operator",
    _told_ports,
    "manifests",
    ("overlays/standalone",),
    without=frozenset({"mpijobs.kubeflow.org"}),
)
"""Without its MPIJob, as Kueue has it: the newer one has the same name."""
MPI = Controller(
    MPI_GROUP,
    "github.com/kubeflow/mpi-operator",
    "mpi-operator:mpi-operator",
    _mpi,
    "manifests",
    ("overlays/standalone",),
    health=False,
)
TRAINER = Controller(
    TRAINER_GROUP,
    "github.com/kubeflow/trainer/v2",
    "kubeflow-system:kubeflow-trainer-controller-manager",
    _configured("config.trainer.kubeflow.org/v1alpha1", _by_default),
    "manifests",
    # Its overlays would fetch JobSet's manifests from the net.
    ("base/crds", "base/rbac", "base/webhook"),
)
"""Makes JobSets of TrainJobs: of use with JobSet's controller."""
VOLCANO = tuple(
    Controller(
        VOLCANO_GROUP,
        "volcano.sh/volcano",
        f"volcano-system:volcano-{account}",
        start,
        "installer",
        parts,
        health=False,
        program=f"vc-{name}",
    )
    for name, account, start, parts in (
        ("webhook-manager", "admission", _admission, ("volcano-development.yaml",)),
        ("controller-manager", "controllers", _volcano, ()),
        ("scheduler", "scheduler", _volcano, ()),
    )
)
"""The first one brings the manifests of all."""
SPARK = Controller(
    SPARK_GROUP,
    "github.com/kubeflow/spark-operator/v2",
    "spark-operator:spark-operator-controller",
    _told_ports,
    parts=("crd/bases/sparkoperator.k8s.io_sparkapplications.yaml",),
    chart="spark-operator.yaml",
)
"""Runs `$SPARK_HOME/bin/spark-submit`, which is not part of it."""
APPWRAPPER = Controller(
    APPWRAPPER_GROUP,
    "github.com/project-codeflare/appwrapper",
    "appwrapper-system:appwrapper-controller-manager",
    _told_ports,
)
MXJOB = Controller(
    MXJOB_GROUP,
    "github.com/kubeflow/training-operator",
    "kubeflow:training-operator",
    _mxjob,
    "manifests",
    ("overlays/standalone",),
    without=frozenset(
        f"{kind}s.kubeflow.org"
        for kind in ("mpijob", "paddlejob", "pytorchjob", "tfjob", "xgboostjob")
    ),
)
"""An older training operator, for this kind alone: not on a rig with the newer one."""
_OF_KINDS = (JOBSET, LWS, KUBERAY, TRAINING, MPI, TRAINER, SPARK, APPWRAPPER, MXJOB)
CONTROLLERS = (*_OF_KINDS, *VOLCANO)


def _kueue_of(group: Group) -> Controller:
    return Controller(
        group,
        "sigs.k8s.io/kueue",
        "kueue-system:kueue-controller-manager",
        _configured("config.kueue.x-k8s.io/v1beta2", _kueue),
        secret=_KUEUE_SECRET,
    )


KUEUES = tuple(map(_kueue_of, (KUEUE_GROUP, OLDER_KUEUE_GROUP)))
"""Kueue itself, on worker clusters without our agent."""
