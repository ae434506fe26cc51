"""Which clusters a queue may use: AdmissionChecks of MultiKueue and the configs they name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from federation.api.names import KUEUE_GROUP, ConditionType, Controller
from federation.api.record import find
from federation.edge.informer import Informer, Store
from federation.edge.kube import KubeClient
from federation.edge.resources import ADMISSION_CHECKS, MULTIKUEUE_CONFIGS, Json


@dataclass(frozen=True, slots=True)
class Check:
    """An AdmissionCheck: its controller, the name of its parameters, whether it can decide.
    `problem` says what is wrong with the parameters of one of MultiKueue's.
    """

    controller: str
    parameters: str = ""
    active: bool = False
    problem: str = ""
    obj: Json = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Config:
    """A MultiKueueConfig: clusters in order, whether quotas are the sums over them."""

    clusters: tuple[str, ...]
    automated: bool = False


class Membership:
    """Follows them. `changed` hears of each change, `everyone` names all clusters there are."""

    def __init__(
        self,
        client: KubeClient,
        everyone: Callable[[], Iterable[str]],
        changed: Callable[[], None],
    ) -> None:
        self._everyone = everyone

        def told(key: object, old: object, new: object) -> None:
            changed()

        self._configs: Store[Config] = Store(_config, told)
        self._checks: Store[Check] = Store(_check, told)
        self.informers = [
            Informer(client, MULTIKUEUE_CONFIGS, self._configs),
            Informer(client, ADMISSION_CHECKS, self._checks),
        ]

    @property
    def checks(self) -> list[Check]:
        """Those of MultiKueue."""
        known = list(self._checks.items.values())
        return [check for check in known if check.controller == Controller.MULTIKUEUE]

    def clusters_for(self, checks: tuple[str, ...]) -> list[str] | str:
        """Clusters that a queue with these checks may use, in order; or what is wrong."""
        name = self.multikueue_check(checks)
        if not name:
            return sorted(self._everyone())
        found = self.clusters_of(self._checks.items["", name])
        return f"AdmissionCheck {name}: {found}" if isinstance(found, str) else found

    def clusters_of(self, check: Check) -> list[str] | str:
        """The clusters of MultiKueue's check, in order; or what is wrong."""
        if check.problem:
            return check.problem
        config = self._configs.items.get(("", check.parameters))
        if config is None:
            return f"MultiKueueConfig {check.parameters} does not exist: create it"
        return list(config.clusters)

    def automated_for(self, checks: tuple[str, ...]) -> list[str] | None:
        """Clusters whose quota a queue with these checks has by their MultiKueueConfig; None if its
        quota is its own.
        """
        name = self.multikueue_check(checks)
        found = self._checks.items["", name] if name else None
        if found is None or found.problem:
            return None
        config = self._configs.items.get(("", found.parameters))
        return list(config.clusters) if config is not None and config.automated else None

    def check(self, name: str) -> Check | None:
        """An AdmissionCheck. Whether MultiKueue's are active is known here."""
        found = self._checks.items.get(("", name))
        if found is None or found.controller != Controller.MULTIKUEUE:
            return found
        return replace(found, active=isinstance(self.clusters_of(found), list))

    def multikueue_check(self, checks: tuple[str, ...]) -> str:
        """The one among a queue's checks that is MultiKueue's; '' if none is."""
        for name in checks:
            found = self._checks.items.get(("", name))
            if found is not None and found.controller == Controller.MULTIKUEUE:
                return name
        return ""


def _config(obj: Json) -> Config:
    spec = obj["spec"]
    return Config(tuple(spec["clusters"]), spec.get("quotaManagement") == "Automated")


def _check(obj: Json) -> Check:
    spec, active = obj["spec"], find(obj.get("status") or {}, ConditionType.ACTIVE)
    controller, parameters = str(spec.get("controllerName", "")), spec.get("parameters") or {}
    ours = controller == Controller.MULTIKUEUE
    return Check(
        controller,
        str(parameters.get("name", "")),
        active is not None and active["status"] == "True",
        _parameters_problem(parameters) if ours else "",
        obj,
    )


def _parameters_problem(parameters: Json) -> str:
    kind = f"{parameters.get('apiGroup', '')} {parameters.get('kind', '')}".strip()
    if not parameters:
        return f"spec.parameters are missing: name a MultiKueueConfig of {KUEUE_GROUP}"
    if kind != f"{KUEUE_GROUP} MultiKueueConfig":
        return f"spec.parameters name a {kind}: name a MultiKueueConfig of {KUEUE_GROUP}"
    return ""
