"""Kueue itself on a worker cluster of a rig, in place of our agent: its own CRDs and its manager.

It runs as a plain process, so no API server reaches its webhooks: none is registered. What they
would do is not needed for Workloads and Jobs that are complete. The certificate that its manager
wants all the same it makes itself; what a kubelet would mount is written to a folder here.
"""

from __future__ import annotations

import base64
import json
import urllib.request
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from fedq.rig.binaries import Progress, find_or_build
from fedq.rig.modules import keep
from fedq.rig.network import LOOPBACK
from fedq.rig.paths import binary_cache
from fedq.rig.ports import allocate
from fedq.rig.rig import Rig
from fedq.rig.tools import KUEUE

NAMESPACE = "kueue-system"
_SERVICE = "kueue-webhook-service"
_SECRET = "kueue-webhook-server-cert"
_CONVERTED = ("localqueues", "clusterqueues", "workloads", "cohorts", "multikueueclusters")
"""Its manager puts its certificate into their conversion, and waits until it has. They are only
asked for in the version that is stored, which converts nothing."""

Json = dict[str, Any]


def program(tell: Progress = print) -> Path:
    """Kueue's manager, built if it is not there yet, and its CRDs beside it. Raises RigError."""
    found = find_or_build(["kueue"], tell)["kueue"]
    keep(KUEUE, "sigs.k8s.io/kueue", "config/components/crd/bases", "crds")
    return found


def crds() -> list[Json]:
    """The CRDs of Kueue, as its own installation has them."""
    folder = binary_cache() / KUEUE.folder / "crds"
    found = [yaml.safe_load(file.read_text()) for file in sorted(folder.glob("*.yaml"))]
    service = {"namespace": NAMESPACE, "name": _SERVICE, "path": "/convert"}
    webhook = {"clientConfig": {"service": service}, "conversionReviewVersions": ["v1"]}
    for crd in found:
        if crd["spec"]["names"]["plural"] in _CONVERTED:
            crd["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    return found


def install(rig: Rig, cluster: str) -> None:
    """What Kueue needs on a cluster before it starts; `program` was called. Safe to repeat."""
    secret = {"name": _SECRET, "namespace": NAMESPACE}
    objects = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        *crds(),
        {"apiVersion": "v1", "kind": "Secret", "metadata": secret},
    ]
    text = "---\n".join(json.dumps(one) + "\n" for one in objects)
    rig.kubectl(cluster, "apply", "--server-side", "--force-conflicts", "-f", "-", input=text)
    rig.kubectl(cluster, "wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")


def start(rig: Rig, cluster: str) -> None:
    """Run its manager for a cluster until the rig is down, or `stop_process("kueue/CLUSTER")`."""
    folder = rig.data_dir(f"kueue-{cluster}")
    config, ports = folder / "config.yaml", folder / "ports.json"
    if not ports.exists():
        ports.write_text(json.dumps(allocate(2, rig.home, [])))
    health, webhook = json.loads(ports.read_text())
    certificates = folder / "certificates"
    certificates.mkdir(exist_ok=True)
    config.write_text(yaml.safe_dump(_configuration(health, webhook, certificates)))
    argv = [str(program()), f"--config={config}"]
    env = {"KUBECONFIG": str(rig.kubeconfig(cluster))}
    ready = partial(_ready, rig, cluster, health, certificates)
    rig.start_process(f"kueue/{cluster}", argv, env, ready, cluster=cluster)


def _configuration(health: int, webhook: int, certificates: Path) -> Json:
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": NAMESPACE,
        "health": {"healthProbeBindAddress": f"{LOOPBACK}:{health}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": LOOPBACK, "port": webhook, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {
            "enable": True,
            "webhookServiceName": _SERVICE,
            "webhookSecretName": _SECRET,
        },
        "clientConnection": {"qps": 50, "burst": 100},  # as its own installation has it
        "integrations": {"frameworks": ["batch/job"]},
        "featureGates": {"VisibilityOnDemand": False, "MultiKueue": False},
    }


def _ready(rig: Rig, cluster: str, port: int, certificates: Path) -> bool:
    """Whether it serves; hands it its certificate as soon as it has made one."""
    if not (certificates / "tls.crt").exists():
        text = rig.kubectl(cluster, "get", "secret", _SECRET, "-n", NAMESPACE, "-o", "json")
        for name, value in (json.loads(text).get("data") or {}).items():
            if name == "tls.crt":  # it waits for this one, and then reads the others
                continue
            (certificates / name).write_bytes(base64.b64decode(value))
        if certificate := (json.loads(text).get("data") or {}).get("tls.crt"):
            (certificates / "tls.crt").write_bytes(base64.b64decode(certificate))
        return False
    try:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/readyz", timeout=2) as page:
            return bool(page.status == 200)
    except OSError:
        return False
