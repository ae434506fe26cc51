"""Where the kubeconfigs of worker clusters come from: Secrets, files, ClusterProfiles.

For each MultiKueueCluster there is a kubeconfig, not judged yet, or a sentence that says why there
is none and what to do. The same content again is no change: links compare it.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from federation.api.configuration_multikueue import AccessProvider
from federation.api.multikueue import ClusterSource, MultiKueueCluster
from federation.api.names import (
    FEDQ_NAMESPACE,
    KUBECONFIG_KEY,
    KUEUE_NAMESPACE,
    ActiveReason,
)
from federation.api.spelling import normalize
from federation.edge.errors import ConfigError
from federation.edge.file_watch import FileWatch
from federation.edge.informer import Informer, Select, Store
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig_file import DEFAULT_DIRECTORY, path_problem, read_kubeconfig
from federation.edge.resources import SECRETS, Json
from manager.clock import Clock
from manager.profiles import Profiles
from manager.protocol import Health


@dataclass(frozen=True, slots=True)
class Sources:
    """`directory` is the one that files have to be in; `providers` are the access providers of
    ClusterProfiles by name, None where those are switched off.
    """

    directory: Path = DEFAULT_DIRECTORY
    providers: Mapping[str, AccessProvider] | None = None


class KubeConfigs:
    """One per manager. `changed` hears when a kubeconfig may be another one now."""

    def __init__(
        self, client: KubeClient, sources: Sources, changed: Callable[[], None], clock: Clock
    ) -> None:
        self._directory, self._changed = sources.directory, changed
        self._secrets: Store[bytes] = Store(_of_secret, self._seen)
        self._kueue_secrets: Store[bytes] = Store(_of_secret, self._seen)
        self.informers = [
            Informer(client, SECRETS, self._secrets, select=Select(FEDQ_NAMESPACE)),
            Informer(client, SECRETS, self._kueue_secrets, select=Select(KUEUE_NAMESPACE)),
        ]
        self._files: dict[str, bytes | Health] = {}
        self._watch = FileWatch(self._files_changed)
        self._profiles = Profiles(client, sources.providers, changed, clock)

    def _seen(self, key: object, old: object, new: object) -> None:
        self._changed()

    def _files_changed(self) -> None:
        self._files.clear()
        self._changed()

    def services(self) -> dict[str, Coroutine[Any, Any, None]]:
        """What has to run, until cancelled."""
        return {"kubeconfig-files": self._watch.run(), "cluster-profiles": self._profiles.run()}

    def follow(self, clusters: Iterable[Json]) -> None:
        """Look after the files and profiles that these MultiKueueClusters name."""
        found = [source for source in map(_source, clusters) if source is not None]
        self._watch.follow(
            Path(s.kube_config.location)
            for s in found
            if s.kube_config is not None
            and s.kube_config.location_type == "Path"
            and not path_problem(s.kube_config.location, self._directory)
        )
        refs = [s.cluster_profile_ref for s in found]
        self._profiles.follow(ref.name for ref in refs if ref is not None)

    def refused(self, obj: Json) -> None:
        """The cluster does not accept its credentials: some can be renewed."""
        source = _source(obj)
        if source is not None and source.cluster_profile_ref is not None:
            self._profiles.refused(source.cluster_profile_ref.name)

    def find(self, obj: Json) -> bytes | Health:
        """The kubeconfig of a MultiKueueCluster, or why there is none."""
        source = _source(obj)
        if source is not None and source.cluster_profile_ref is not None:
            return self._profiles.find(source.cluster_profile_ref.name)
        config = source.kube_config if source else None
        if config is None:
            return _bad("spec.clusterSource.kubeConfig is missing or malformed: write it again")
        if config.location_type == "Path":
            return self._file(config.location, obj["metadata"]["name"])
        found = self._secrets.items.get((FEDQ_NAMESPACE, config.location))
        found = found or self._kueue_secrets.items.get((KUEUE_NAMESPACE, config.location))
        return found or _bad(
            f"Secret {FEDQ_NAMESPACE}/{config.location} with the key {KUBECONFIG_KEY} does not"
            " exist: create it (it is taken up at once)"
        )

    def _file(self, location: str, cluster: str) -> bytes | Health:
        """As it was when the directory changed last."""
        if location not in self._files:
            try:
                self._files[location] = read_kubeconfig(location, self._directory, cluster)
            except ConfigError as error:
                self._files[location] = _bad(f"{error} It is taken up as soon as it is there.")
        return self._files[location]


def _bad(text: str) -> Health:
    return Health(False, ActiveReason.BAD_KUBE_CONFIG.value, text)


def _of_secret(obj: Json) -> bytes | None:
    text = (obj.get("data") or {}).get(KUBECONFIG_KEY)
    return base64.b64decode(text) if text else None


def _source(obj: Json) -> ClusterSource | None:
    """Where the kubeconfig is. What stands in the status is our own to write, and not read here."""
    try:
        return MultiKueueCluster.from_wire(normalize({**obj, "status": {}})).spec.cluster_source
    except ValidationError:
        return None
