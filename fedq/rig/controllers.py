"""Controllers of other kinds than Job on a cluster of a rig, as their own installations have them:
CRDs, roles, webhooks and program.

The program runs as a plain process with the rights of its own ServiceAccount, and the API server
reaches its webhooks by address. Only clusters of the local backend reach it so.
"""

from __future__ import annotations

import base64
import json
import os
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from federation.api import yaml_text
from fedq.rig.binaries import Progress, find_or_build
from fedq.rig.modules import keep
from fedq.rig.operators import Controller, Seat
from fedq.rig.paths import binary_cache
from fedq.rig.pki import Authority
from fedq.rig.ports import allocate
from fedq.rig.rig import Rig
from fedq.rig.tools import is_executable

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
# Of megabytes of CRDs the loader in Python makes minutes on a busy machine.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_WEBHOOKS = {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}


def program(controller: Controller, tell: Progress = print) -> Path:
    """The program, built if it is not there yet, and its manifests beside it. Raises RigError."""
    found = find_or_build([controller.name], tell)[controller.name]
    keep(controller.group, controller.module, controller.manifests, controller.manifests)
    return found


def is_built(controller: Controller) -> bool:
    """Whether `program` has nothing to do."""
    folder = binary_cache() / controller.group.folder
    return is_executable(folder / controller.name) and (folder / controller.manifests).is_dir()


def run(
    rig: Rig, cluster: str, controller: Controller, env: Mapping[str, str] | None = None
) -> None:
    """Install it on a cluster and run it there until the rig is down, or until
    `stop_process("NAME/CLUSTER")`, with more in its environment. `program` was called. Safe to
    repeat.
    """
    objects = _manifests(rig, cluster, controller)
    _apply(rig, cluster, [one for one in objects if one["kind"] in _BEFORE])
    if crds := [one for one in objects if one["kind"] == "CustomResourceDefinition"]:
        _served(rig, cluster, crds)
    if controller.needs:
        _start_needed(rig, cluster, controller)
    seat = _seat(rig, cluster, controller)
    _start(rig, cluster, controller, seat, env or {})
    authority = Authority(rig.home / "pki").certificate_file.read_bytes()
    address = f"{seat.host}:{seat.webhook}"
    hooks = [one for one in objects if one["kind"] in _WEBHOOKS]
    if hooks:
        _apply(rig, cluster, [reached_at(one, address, authority) for one in hooks])


def manifests(controller: Controller) -> Path:
    """The folder with what its module brings; `program` was called."""
    return binary_cache() / controller.group.folder / controller.manifests


def _manifests(rig: Rig, cluster: str, controller: Controller) -> list[Json]:
    """What its installation consists of, as kustomize puts it together, or one file has it."""
    parts = [manifests(controller) / part for part in controller.parts]
    own = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": controller.namespace}}
    if not parts:
        return [own]
    folder = parts[0]
    if len(parts) > 1:
        folder = rig.data_dir(f"{controller.name}-manifests")
        paths = [os.path.relpath(part, folder) for part in parts]
        content = {"namespace": controller.namespace, "resources": paths}
        (folder / "kustomization.yaml").write_text(yaml_text.dump(content))
    plain = folder.is_file()
    text = folder.read_text() if plain else rig.kubectl(cluster, "kustomize", str(folder))
    made = list(filter(None, yaml.load_all(text, _LOADER)))
    names = {"Namespace": {controller.namespace}, "CustomResourceDefinition": controller.without}
    left_out = [one["metadata"]["name"] in names.get(one["kind"], ()) for one in made]
    return [own, *(one for one, out in zip(made, left_out, strict=True) if not out)]


def _served(rig: Rig, cluster: str, crds: list[Json]) -> None:
    """Wait until a cluster serves kinds."""
    names = [f"crd/{crd['metadata']['name']}" for crd in crds]
    # `kubectl wait` fails where no conditions are written yet; they come with the names.
    for sign in ("jsonpath={.status.acceptedNames.kind}", "condition=Established"):
        rig.kubectl(cluster, "wait", f"--for={sign}", *names, "--timeout=60s")


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


def _seat(rig: Rig, cluster: str, controller: Controller) -> Seat:
    """Where it is on a cluster, with its certificate."""
    host, folder = rig.network.host(cluster), rig.data_dir(f"{controller.name}-{cluster}")
    health, webhook = _ports(folder)
    # Key and certificate are in one file, which Go reads as both.
    authority = Authority(rig.home / "pki")
    pair = authority.server(folder / "tls.crt", host)
    for name, file in (("tls.key", pair), ("ca.crt", authority.certificate_file)):
        if not (link := folder / name).exists():  # the program watches it
            link.symlink_to(file)
    return Seat(host, health, webhook, folder)


def _start(
    rig: Rig, cluster: str, controller: Controller, seat: Seat, env: Mapping[str, str]
) -> None:
    kubeconfig = seat.folder / "kubeconfig"
    kubeconfig.touch(mode=0o600)
    kubeconfig.write_text(_as(controller.user, rig.kubeconfig(cluster)))
    started = controller.start(seat)
    page = f"{seat.host}:{seat.health}"
    rig.start_process(
        f"{controller.name}/{cluster}",
        [str(program(controller)), *started.arguments],
        {"KUBECONFIG": str(kubeconfig), **started.env, **env},
        (lambda: _ready(page)) if controller.health else None,
        cluster=cluster,
    )


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
    listed = {"apiVersion": "v1", "kind": "List", "items": objects}
    text = json.dumps(listed)
    rig.kubectl(cluster, "apply", "--server-side", "--force-conflicts", "-f", "-", input=text)
