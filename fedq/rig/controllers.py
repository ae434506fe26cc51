"""Controllers of others on a cluster of a rig (of further kinds of jobs, Kueue), as their own
installations have them: CRDs, roles, webhooks and program.

The program runs as a plain process with the rights of its own ServiceAccount, and the API server
reaches its webhooks by address. Only clusters of the local backend reach it so.
"""

from __future__ import annotations

import base64
import json
import os
import urllib.request
from collections.abc import Callable, Mapping
from functools import partial
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
    seat = _seat(rig, cluster, controller)
    authority = Authority(rig.home / "pki").certificate_file.read_bytes()
    reach = _by_service(seat) if controller.secret else _by_address(seat, authority)
    objects = [reached(one, reach) for one in _manifests(rig, cluster, controller)]
    hooks = [one for one in objects if one["kind"] in _WEBHOOKS]
    before = _BEFORE | ({"Secret", *_WEBHOOKS} if controller.secret else set())
    _apply(rig, cluster, [one for one in objects if one["kind"] in before])
    if controller.secret:
        _apply(rig, cluster, [_leading_here(one) for one in objects if one["kind"] == "Service"])
    _served(rig, cluster, [one for one in objects if one["kind"] == "CustomResourceDefinition"])
    if controller.needs:
        _start_needed(rig, cluster, controller)
    _start(rig, cluster, controller, seat, env or {})
    if hooks and not controller.secret:
        _apply(rig, cluster, hooks)


def manifests(controller: Controller) -> Path:
    """The folder with what its module brings; `program` was called."""
    return binary_cache() / controller.group.folder / controller.manifests


def _manifests(rig: Rig, cluster: str, controller: Controller) -> list[Json]:
    """What its installation consists of, as kustomize puts it together."""
    parts = [manifests(controller) / part for part in controller.parts]
    folder = parts[0]
    if len(parts) > 1:
        folder = rig.data_dir(f"{controller.name}-manifests")
        paths = [os.path.relpath(part, folder) for part in parts]
        content = {"namespace": controller.namespace, "resources": paths}
        (folder / "kustomization.yaml").write_text(yaml_text.dump(content))
    made = list(yaml.load_all(rig.kubectl(cluster, "kustomize", str(folder)), _LOADER))
    own = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": controller.namespace}}
    names = {"Namespace": {controller.namespace}, "CustomResourceDefinition": controller.without}
    left_out = [one["metadata"]["name"] in names.get(one["kind"], ()) for one in made]
    return [own, *(one for one, out in zip(made, left_out, strict=True) if not out)]


def _served(rig: Rig, cluster: str, crds: list[Json]) -> None:
    """Wait until a cluster serves kinds."""
    names = [f"crd/{crd['metadata']['name']}" for crd in crds]
    # `kubectl wait` fails where no conditions are written yet; they come with the names.
    for sign in ("jsonpath={.status.acceptedNames.kind}", "condition=Established"):
        rig.kubectl(cluster, "wait", f"--for={sign}", *names, "--timeout=60s")


Client = Callable[[Json], Json]
"""How a webhook is reached: its clientConfig, of the one that its installation has."""


def _by_address(seat: Seat, authority: bytes) -> Client:
    """With a certificate of the rig."""

    def client(given: Json) -> Json:
        trusted = base64.b64encode(authority).decode()
        url = f"https://{seat.host}:{seat.webhook}{given['service']['path']}"
        return {"url": url, "caBundle": trusted}

    return client


def _by_service(seat: Seat) -> Client:
    """With the certificate that the program makes itself, for its Service (`_leading_here`)."""
    return lambda given: {"service": {**given["service"], "port": seat.webhook}}


def _leading_here(service: Json) -> Json:
    """The Service by which the API server reaches a program on this machine."""
    here = {"type": "ExternalName", "externalName": "localhost"}
    meta = {key: service["metadata"][key] for key in ("name", "namespace")}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": here}


def reached(obj: Json, client: Client) -> Json:
    """An object whose webhooks are reached so, instead of by a Service of a cluster: a
    configuration of webhooks, or a CRD that is converted by one. Others are as they were.
    """
    if obj["kind"] in _WEBHOOKS:
        hooks = [{**hook, "clientConfig": client(hook["clientConfig"])} for hook in obj["webhooks"]]
        return {**obj, "webhooks": hooks}
    webhook = (obj.get("spec", {}).get("conversion") or {}).get("webhook")
    if obj["kind"] != "CustomResourceDefinition" or webhook is None:
        return obj
    webhook = {**webhook, "clientConfig": client(webhook["clientConfig"])}
    conversion = {"strategy": "Webhook", "webhook": webhook}
    return {**obj, "spec": {**obj["spec"], "conversion": conversion}}


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
    if controller.secret:
        return Seat(host, health, webhook, folder)
    # Key and certificate are in one file, which Go reads as both.
    pair = Authority(rig.home / "pki").server(folder / "tls.crt", host)
    if not (key := folder / "tls.key").exists():  # the program watches it
        key.symlink_to(pair)
    return Seat(host, health, webhook, folder)


def _start(
    rig: Rig, cluster: str, controller: Controller, seat: Seat, env: Mapping[str, str]
) -> None:
    kubeconfig = seat.folder / "kubeconfig"
    kubeconfig.touch(mode=0o600)
    kubeconfig.write_text(_as(controller.user, rig.kubeconfig(cluster)))
    started = controller.start(seat)
    rig.start_process(
        f"{controller.name}/{cluster}",
        [str(program(controller)), *started.arguments],
        {"KUBECONFIG": str(kubeconfig), **started.env, **env},
        partial(_ready, rig, cluster, controller, seat) if controller.health else None,
        cluster=cluster,
    )


def _as(account: str, admin: Path) -> str:
    """The kubeconfig of an admin who acts as somebody else, with no more rights than that one."""
    config = yaml.safe_load(admin.read_text())
    for user in config["users"]:
        user["user"]["as"] = account
    return yaml_text.dump(config)


def _ready(rig: Rig, cluster: str, controller: Controller, seat: Seat) -> bool:
    """Whether it serves; hands it its certificate as soon as it has made one."""
    if controller.secret and not (seat.folder / "tls.crt").exists():
        space = ("-n", controller.namespace, "-o", "json")
        text = rig.kubectl(cluster, "get", "secret", controller.secret, *space)
        found = json.loads(text).get("data") or {}
        for name in sorted(found, key="tls.crt".__eq__):  # it waits for that, and reads the others
            (seat.folder / name).write_bytes(base64.b64decode(found[name]))
        return False
    try:
        page = f"http://{seat.host}:{seat.health}/readyz"
        with urllib.request.urlopen(page, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _apply(rig: Rig, cluster: str, objects: list[Json]) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": objects}
    text = json.dumps(listed)
    rig.kubectl(cluster, "apply", "--server-side", "--force-conflicts", "-f", "-", input=text)
