"""The programs a rig is made of, their versions, and how to ask one for its version."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

_VERSION = re.compile(r"\bv?(\d+\.\d+\.\d+)\b")
_KUBE_VERSION = "k8s.io/component-base/version"


@dataclass(frozen=True, slots=True)
class Group:
    """Programs that come from one Go module, at one version.

    Attributes:
        packages: program → Go package.
        ldflags: linker flags that give the programs their version.
        pins: name of the folder in `gotools/` that has their go.mod; '' for one of its own.
    """

    name: str
    version: str
    packages: dict[str, str]
    ldflags: str = ""
    pins: str = ""

    @property
    def gotool(self) -> str:
        """Name of the folder in `gotools/`."""
        return self.pins or self.name

    @property
    def folder(self) -> str:
        """Name of its folder in the binary cache."""
        return f"{self.name}-v{self.version}"

    @property
    def minor(self) -> str:
        """`1.36` of `1.36.3`: what a program found elsewhere must agree with."""
        return self.version.rpartition(".")[0]


KUBERNETES = Group(
    "kubernetes",
    "1.36.3",
    {
        name: f"k8s.io/kubernetes/cmd/{name}"
        for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
    },
    f"-X {_KUBE_VERSION}.gitVersion=v1.36.3 -X {_KUBE_VERSION}.gitMajor=1"
    f" -X {_KUBE_VERSION}.gitMinor=36 -X {_KUBE_VERSION}.gitTreeState=clean",
)
ETCD = Group("etcd", "3.6.14", {"etcd": "go.etcd.io/etcd/server/v3"}, "")
KWOK = Group(
    "kwok",
    "0.8.0",
    {"kwok": "sigs.k8s.io/kwok/cmd/kwok"},
    "-X sigs.k8s.io/kwok/pkg/consts.Version=v0.8.0",
)
KIND = Group("kind", "0.33.0", {"kind": "sigs.k8s.io/kind"}, "")
_KUEUE = "sigs.k8s.io/kueue/cmd/kueue"
_KUEUE_VERSION = "-X sigs.k8s.io/kueue/pkg/version.GitVersion=v"
KUEUE = Group("kueue", "0.19.0", {"kueue": _KUEUE}, f"{_KUEUE_VERSION}0.19.0")
OLDER_KUEUE = Group("kueue-0.17", "0.17.0", {"kueue-0.17": _KUEUE}, f"{_KUEUE_VERSION}0.17.0")
"""What some worker clusters run instead of our agent: only built where a test wants them. The older
one is the last that knows a copy by a label.
"""
JOBSET = Group(
    "jobset",
    "0.11.1",
    {"jobset": "sigs.k8s.io/jobset"},
    "-X sigs.k8s.io/jobset/pkg/version.GitVersion=v0.11.1",
)
LWS = Group(
    "lws",
    "0.8.0",
    {"lws": "sigs.k8s.io/lws/cmd"},
    "-X sigs.k8s.io/lws/pkg/version.GitVersion=v0.8.0",
)
"""Like JobSet's the controller of a kind: only built where a test wants a real one."""
_OPERATORS = "operators"
KUBERAY = Group(
    "kuberay",
    "1.6.0",
    {"kuberay": "github.com/ray-project/kuberay/ray-operator"},
    pins=_OPERATORS,
)
TRAINING = Group(
    "training-operator",
    "1.9.3",
    {"training-operator": "fedq.io/rig/operators/training"},
    pins=_OPERATORS,
)
MPI = Group("mpi-operator", "0.8.0", {"mpi-operator": "fedq.io/rig/operators/mpi"}, pins=_OPERATORS)
APPWRAPPER = Group(
    "appwrapper", "1.2.0", {"appwrapper": "fedq.io/rig/operators/appwrapper"}, pins=_OPERATORS
)
TRAINER = Group(
    "trainer",
    "2.2.0",
    {"trainer": "github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager"},
)
SPARK = Group(
    "spark-operator",
    "2.5.0",
    {"spark-operator": "github.com/kubeflow/spark-operator/v2/fedq"},
    pins=_OPERATORS,
)
"""More of them, of the versions and with the libraries that Kueue is built with, as far as they
compile with these."""
VOLCANO = Group(
    "volcano",
    "1.14.1",
    {
        f"vc-{name}": f"volcano.sh/volcano/cmd/{name}"
        for name in ("webhook-manager", "controller-manager", "scheduler")
    },
)
"""With the libraries of Kubernetes that it was released with: its scheduler is made of theirs."""
MXJOB = Group(
    "mxjob",
    "1.7.0",
    {"mxjob": "github.com/kubeflow/training-operator/cmd/training-operator.v1"},
)
"""The last training operator that knows MXJob, with the libraries of its time."""
_KINDS = (JOBSET, LWS, KUBERAY, TRAINING, MPI, TRAINER, SPARK, APPWRAPPER, MXJOB, VOLCANO)
GROUPS = (ETCD, KWOK, KIND, KUBERNETES, KUEUE, OLDER_KUEUE, *_KINDS)
LOCAL_TOOLS = (*ETCD.packages, *KWOK.packages, *KUBERNETES.packages)
"""What the local backend needs."""


def group_of(tool: str) -> Group:
    """The group that `tool` belongs to. Raises StopIteration for a tool of no group."""
    return next(group for group in GROUPS if tool in group.packages)


def version_of(path: Path) -> str | None:
    """`X.Y.Z` as the program itself tells it; None when it does not run or does not say."""
    arguments = ["version", "--client"] if path.name == "kubectl" else ["--version"]
    try:
        done = subprocess.run(
            [path, *arguments], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(done.stdout)
    return found[1] if done.returncode == 0 and found else None


def is_executable(path: Path) -> bool:
    """True for a file that this user may run."""
    return path.is_file() and os.access(path, os.X_OK)
