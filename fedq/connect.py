"""Which management cluster a command talks to, and as whom.

In this order: --kubeconfig/--context, the local rig if one is up, $KUBECONFIG or ~/.kube/config.
A --context that no kubeconfig has may be a cluster of the local rig.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
import yaml

from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint, load_endpoint, parse_untrusted
from fedq.errors import CommandError
from fedq.rig.errors import RigError
from fedq.rig.rig import Rig

T = TypeVar("T")

KubeconfigOption = Annotated[
    Path | None,
    typer.Option("--kubeconfig", help="Kubeconfig of the cluster.", show_default=False),
]
ContextOption = Annotated[
    str | None, typer.Option("--context", help="Context in the kubeconfig.", show_default=False)
]
NamespaceOption = Annotated[
    str,
    typer.Option(
        "-n", "--namespace", help="Namespace; default: that of the context.", show_default=False
    ),
]


@dataclass(frozen=True, slots=True)
class Target:
    """A management cluster. `rig` is set when it is that of the local rig."""

    endpoint: Endpoint
    namespace: str = "default"
    rig: Rig | None = None


@dataclass(frozen=True, slots=True)
class Cluster:
    """A connection, and the namespace that a command uses when it is told none."""

    client: KubeClient
    namespace: str
    rig: Rig | None = None


def choose(kubeconfig: Path | None, context: str | None) -> Target:
    """The cluster to talk to. Raises ConfigError or CommandError when there is none."""
    if kubeconfig is None and context is None and (found := _local_rig()) is not None:
        rig, path = found
        typer.echo(f"using the local rig in {rig.home}", err=True)
        return Target(parse_untrusted(path.read_bytes(), rig.management), rig=rig)
    if kubeconfig is not None and not kubeconfig.is_file():
        raise CommandError(f"there is no kubeconfig {kubeconfig}", todo="Check --kubeconfig.")
    files = _files(kubeconfig)
    if kubeconfig is None and context and (member := _of_rig(context, files)):
        return Target(parse_untrusted(member.read_bytes(), context))
    if not any(map(os.path.exists, files)) and "KUBERNETES_SERVICE_HOST" not in os.environ:
        raise CommandError(
            "there is no cluster to talk to",
            f"no local rig is up, and there is no kubeconfig {' or '.join(files)}"
            if context is None
            else f"context {context} is looked for in {' and '.join(files)}, which is not there",
            "Start a local rig (`fedq rig up`), or name a kubeconfig with --kubeconfig.",
        )
    return Target(load_endpoint(kubeconfig, context), _namespace(kubeconfig, context))


def _local_rig() -> tuple[Rig, Path] | None:
    """The local rig and its admin kubeconfig, if it is up."""
    try:
        rig = Rig.load()
        path = rig.kubeconfig(rig.management)
    except RigError:
        return None
    return (rig, path) if path.is_file() else None


def _of_rig(context: str, files: list[str]) -> Path | None:
    """The kubeconfig of a cluster of the local rig by its name, if no kubeconfig here has it."""
    found = _local_rig()
    if found is None or any(context in _contexts(_config(file)) for file in files):
        return None
    try:
        path = found[0].kubeconfig(context)
    except RigError:
        return None
    return path if path.is_file() else None


def of_context(name: str) -> Target | None:
    """The cluster of a context, if a kubeconfig of the person has one of that name."""
    found = next((file for file in _files(None) if name in _contexts(_config(file))), None)
    return None if found is None else Target(load_endpoint(Path(found), name))


def _files(kubeconfig: Path | None) -> list[str]:
    """Where kubectl looks for contexts."""
    chosen = os.environ.get("KUBECONFIG", "") or str(Path.home() / ".kube" / "config")
    return [str(kubeconfig)] if kubeconfig else list(filter(None, chosen.split(os.pathsep)))


def _namespace(kubeconfig: Path | None, context: str | None) -> str:
    """Namespace of the context, as kubectl reads it: the first file that knows wins."""
    configs = [_config(file) for file in _files(kubeconfig)]
    wanted = context or next(filter(None, (c.get("current-context") for c in configs)), None)
    for config in configs:
        if entry := _contexts(config).get(wanted):
            return str((entry.get("context") or {}).get("namespace") or "default")
    return "default"


def _config(file: str) -> dict[str, Any]:
    try:
        found = yaml.safe_load(Path(file).read_text())
    except (OSError, yaml.YAMLError, UnicodeDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def _contexts(config: dict[str, Any]) -> dict[Any, Any]:
    """The contexts of a kubeconfig by name."""
    return {entry.get("name"): entry for entry in config.get("contexts") or ()}


def open_client(target: Target) -> KubeClient:
    """A client of the target; replaced in tests."""
    return KubeClient(target.endpoint, user_agent="fedq-cli")


def run(target: Target, work: Callable[[Cluster], Awaitable[T]]) -> T:
    """Connect, do `work`, and close the connection."""

    async def connected() -> T:
        async with open_client(target) as client:
            return await work(Cluster(client, target.namespace, target.rig))

    return asyncio.run(connected())
