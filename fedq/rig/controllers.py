"""Controllers of other kinds than Job on a cluster of a rig, as their own installations have them:
CRDs, roles, webhooks and program.

The program runs as a plain process with the rights of its own ServiceAccount, and the API server
reaches its webhooks by address. Only clusters of the local backend reach it so.
"""

from __future__ import annotations

import base64
import json
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from federation.api import yaml_text
from fedq.rig.binaries import Progress, find_or_build
from fedq.rig.modules import keep
from fedq.rig.paths import binary_cache
from fedq.rig.pki import Authority
from fedq.rig.ports import allocate
from fedq.rig.rig import Rig
from fedq.rig.tools import JOBSET as JOBSET_GROUP
from fedq.rig.tools import LWS as LWS_GROUP
from fedq.rig.tools import Group, is_executable

Json = dict[str, Any]

_BEFORE = {
    "Namespace",
    "CustomResourceDefinition",
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "ClusterRole",
    "ClusterRoleBinding",
}
"""What a program needs before it starts. The rest of an installation is how it runs in a pod."""
_WEBHOOKS = {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}


@dataclass(frozen=True, slots=True)
class Controller:
    """One of them.

    Attributes:
        group: its one program.
        module: Go module that has its manifests in `config/default`.
        configuration: apiVersion of its Configuration.
        needs: controllers of Kubernetes itself that a rig has not, and this one builds on.
    """

    group: Group
    module: str
    configuration: str
    needs: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Of the program, and what the names of its objects begin with."""
        return self.group.name

    @property
    def account(self) -> str:
        """Its user name on a cluster."""
        return f"system:serviceaccount:{self.name}-system:{self.name}-controller-manager"


JOBSET = Controller(JOBSET_GROUP, "sigs.k8s.io/jobset", "config.jobset.x-k8s.io/v1alpha1")
LWS = Controller(
    LWS_GROUP,
    "sigs.k8s.io/lws",
    "config.lws.x-k8s.io/v1alpha1",
    ("statefulset-controller",),
)
CONTROLLERS = (JOBSET, LWS)


def program(controller: Controller, tell: Progress = print) -> Path:
    """The program, built if it is not there yet, and its manifests beside it. Raises RigError."""
    found = find_or_build([controller.name], tell)[controller.name]
    keep(controller.group, controller.module, "config", "config")
    return found


def is_built(controller: Controller) -> bool:
    """Whether `program` has nothing to do."""
    folder = binary_cache() / controller.group.folder
    return is_executable(folder / controller.name) and (folder / "config").is_dir()


def run(rig: Rig, cluster: str, controller: Controller) -> None:
    """Install it on a cluster and run it there until the rig is down, or until
    `stop_process("NAME/CLUSTER")`. `program` was called. Safe to repeat.
    """
    manifests = binary_cache() / controller.group.folder / "config" / "default"
    objects = list(yaml.safe_load_all(rig.kubectl(cluster, "kustomize", str(manifests))))
    _apply(rig, cluster, [one for one in objects if one["kind"] in _BEFORE])
    for crd in objects:
        if crd["kind"] == "CustomResourceDefinition":
            _served(rig, cluster, crd)
    if controller.needs:
        _start_needed(rig, cluster, controller)
    address = _start(rig, cluster, controller)
    authority = Authority(rig.home / "pki").certificate_file.read_bytes()
    hooks = [one for one in objects if one["kind"] in _WEBHOOKS]
    _apply(rig, cluster, [reached_at(one, address, authority) for one in hooks])


def _served(rig: Rig, cluster: str, crd: Json) -> None:
    """Wait until a cluster serves a kind."""
    # `kubectl wait` fails where no conditions are written yet; they come with the names.
    named = f"jsonpath={{.status.acceptedNames.kind}}={crd['spec']['names']['kind']}"
    for sign in (named, "condition=Established"):
        rig.kubectl(
            cluster, "wait", f"--for={sign}", f"crd/{crd['metadata']['name']}", "--timeout=60s"
        )


def reached_at(configuration: Json, address: str, authority: bytes) -> Json:
    """A configuration of webhooks that leads to `https://ADDRESS` instead of a Service."""
    hooks = []
    for hook in configuration["webhooks"]:
        path = hook["clientConfig"]["service"]["path"]
        trusted = base64.b64encode(authority).decode()
        client = {"url": f"https://{address}{path}", "caBundle": trusted}
        hooks.append({**hook, "clientConfig": client})
    return {**configuration, "webhooks": hooks}


def _start_needed(rig: Rig, cluster: str, controller: Controller) -> None:
    """A second controller manager of Kubernetes, for those that the rig's own does not run."""
    tool, name = "kube-controller-manager", f"{controller.name}-needs"
    folder = rig.data_dir(f"{name}-{cluster}")
    argv = [
        str(find_or_build([tool])[tool]),
        f"--kubeconfig={rig.kubeconfig(cluster)}",
        f"--controllers={','.join(controller.needs)}",
        "--leader-elect=false",
        f"--bind-address={rig.network.host(cluster)}",
        f"--secure-port={_ports(folder)[0]}",
        f"--cert-dir={folder}",
    ]
    rig.start_process(f"{name}/{cluster}", argv, {}, cluster=cluster)


def _ports(folder: Path) -> list[int]:
    """Two ports for what has that folder, chosen once."""
    kept = folder / "ports.json"
    if not kept.exists():
        kept.write_text(json.dumps(allocate(2, folder)))
    return list(json.loads(kept.read_text()))


def _start(rig: Rig, cluster: str, controller: Controller) -> str:
    """Start the program; where its webhooks are served."""
    host, folder = rig.network.host(cluster), rig.data_dir(f"{controller.name}-{cluster}")
    health, webhook = _ports(folder)
    # Key and certificate are in one file, which Go reads as both.
    pair = Authority(rig.home / "pki").server(folder / "tls.crt", host)
    if not (key := folder / "tls.key").exists():  # the program watches it
        key.symlink_to(pair)
    config = folder / "config.yaml"
    config.write_text(
        yaml_text.dump(
            {
                "apiVersion": controller.configuration,
                "kind": "Configuration",
                "health": {"healthProbeBindAddress": f"{host}:{health}"},
                "metrics": {"bindAddress": "0"},
                "webhook": {"host": host, "port": webhook, "certDir": str(folder)},
                "leaderElection": {"leaderElect": False},
                "internalCertManagement": {"enable": False},
            }
        )
    )
    kubeconfig = folder / "kubeconfig"
    kubeconfig.touch(mode=0o600)
    kubeconfig.write_text(_as(controller.account, rig.kubeconfig(cluster)))
    rig.start_process(
        f"{controller.name}/{cluster}",
        [str(program(controller)), f"--config={config}"],
        {"KUBECONFIG": str(kubeconfig)},
        lambda: _ready(f"{host}:{health}"),
        cluster=cluster,
    )
    return f"{host}:{webhook}"


def _as(account: str, admin: Path) -> str:
    """The kubeconfig of an admin who acts as somebody else, with no more rights than that one."""
    config = yaml.safe_load(admin.read_text())
    for user in config["users"]:
        user["user"]["as"] = account
    return yaml_text.dump(config)


def _ready(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address}/readyz", timeout=2) as page:
            return bool(page.status == 200)
    except OSError:
        return False


def _apply(rig: Rig, cluster: str, objects: list[Json]) -> None:
    text = yaml_text.dump_all(objects)
    rig.kubectl(cluster, "apply", "--server-side", "--force-conflicts", "-f", "-", input=text)
