"""SparkApplication: a driver and executors, described by fields of their own beside pod templates.

The operator's webhook writes what the fields say over what the templates say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from federation.api.kinds.paths import EACH, first, mapping, places, put
from federation.api.names import Mirror
from federation.jobs.containers import PodDefaults
from federation.jobs.kinds.kind import PodRole
from federation.jobs.kinds.parts import NO_TEMPLATE
from federation.jobs.kinds.shape import shaped
from federation.jobs.kinds.spark_pods import (
    ROLES,
    Properties,
    dynamic,
    executors,
    problem,
    properties,
    requests,
)
from federation.jobs.kinds.unheeding import Unheeding

Json = dict[str, Any]

_FIELDS = (
    ("metadata", "labels"),
    ("metadata", "annotations"),
    ("spec", "nodeSelector"),
    ("spec", "tolerations"),
)
_READ = ("affinity", "terminationGracePeriodSeconds")
"""Fields that say the same of pods, and that no start changes."""
_STATE = ("status", "applicationState", "state")
_MOST_TRACKED = 1000
"""Of so many executors the operator tells by default."""


class SparkApplication(Unheeding):
    """See JobKind."""

    def roles(self, obj: Json) -> tuple[PodRole, ...]:
        """See JobKind."""
        spec = mapping(obj, ("spec",))
        if not any(isinstance(spec.get(name), dict) for name in ROLES):
            return ()
        given = properties(spec)
        counts = {"driver": 1, "executor": executors(given)}
        found = (PodRole(name, counts[name], _template(spec, name, given)) for name in ROLES)
        return tuple(role for role in found if shaped(role.template))

    def with_templates(self, obj: Json, templates: Mapping[str, Json]) -> Json:
        """See JobKind. The operator takes a node selector for all pods, or for each role, not both:
        what is said for all is said for each then.
        """
        obj = _apart(obj)
        for name, wanted in templates.items():
            base = mapping(obj, ("spec", name, "template"))
            for part, field in _FIELDS:
                own = first(obj, ("spec", name, field))
                value = _beside(
                    (base.get(part) or {}).get(field), (wanted.get(part) or {}).get(field), own
                )
                if value != own:
                    obj = put(obj, ("spec", name, field), value)
            env = wanted["spec"]["containers"][0].get("env")
            if env is not None:
                obj = put(obj, ("spec", name, "env"), env)
        return obj

    def problem(self, obj: Json, defaults: PodDefaults | None = None) -> str:
        """See JobKind."""
        spec = mapping(obj, ("spec",))
        if spec.get("mode", "cluster") != "cluster":
            return (
                "spec.mode has to be cluster: in other modes the driver runs outside of the queue"
            )
        given = properties(spec)
        for name in ROLES:
            if not shaped(_template(spec, name, given)):
                return f"spec.{name} {NO_TEMPLATE}"
        return problem(given) or super().problem(obj, defaults)

    def _busy(self, obj: Json) -> bool:
        """See GenericKind. Of one that was started the operator may run spark-submit, for seconds,
        before it says anything.
        """
        return super()._busy(obj) or self._submitted(obj)

    def _lingers(self, obj: Json) -> bool:
        return super()._lingers(obj) or self._submitted(obj)

    def _submitted(self, obj: Json) -> bool:
        noted = Mirror.ADMISSION.value in (obj["metadata"].get("annotations") or {})
        return noted and not mapping(obj, ("status",))

    def ready(self, obj: Json) -> bool:
        """See GenericKind. Its driver runs, and as many executors run or have ended as it asks for,
        as for Kueue 0.19; those that Spark asks for by itself come as it needs them.
        """
        if self.finished(obj):
            return True
        given = properties(mapping(obj, ("spec",)))
        wanted = 0 if dynamic(given) else min(executors(given), _MOST_TRACKED)
        told = (state for _, state in places(obj, ("status", "executorState", EACH)))
        there = sum(state in ("RUNNING", "COMPLETED") for state in told)
        return first(obj, _STATE) == "RUNNING" and there >= wanted


def _apart(obj: Json) -> Json:
    """With a node selector for each role instead of one for all."""
    for_all = mapping(obj, ("spec", "nodeSelector"))
    if not for_all:
        return obj
    for name in ROLES:
        own = mapping(obj, ("spec", name, "nodeSelector"))
        obj = put(obj, ("spec", name, "nodeSelector"), {**for_all, **own})
    apart: Json = put(obj, ("spec", "nodeSelector"), None)
    return apart


def _beside(base: Any, wanted: Any, own: Any) -> Any:
    """What a field has to say beside its pod template, so that both say what is wanted."""
    if not base or not wanted:
        return wanted if not base else own or None
    if isinstance(wanted, dict):
        kept = {k: v for k, v in wanted.items() if base.get(k) != v or k in (own or {})}
        return kept or (None if own else own)
    return [item for item in wanted if item not in base or item in (own or ())] or None


def _template(spec: Json, name: str, given: Properties) -> Json:
    """The pods of a role as Spark and the operator make them; {} if that cannot be said."""
    role = mapping(spec, (name,))
    base = role["template"] if role.get("template") is not None else {"spec": {}}
    if not shaped(base):
        return {}
    pods = dict(base["spec"])
    own, others = _sparks(pods.get("containers") or [], name)
    own = {
        **{field: value for field, value in own.items() if field != "env"},
        **({"env": role["env"]} if "env" in role else {}),
        "name": name,
        "resources": _resources(own, role, requests(name, spec, given)),
    }
    pods["containers"] = _both([own, *others], role.get("sidecars"))
    for field, more in (
        ("initContainers", role.get("initContainers")),
        ("nodeSelector", spec.get("nodeSelector")),
        *((field, role.get(field)) for _, field in _FIELDS[2:]),
    ):
        if more is not None:
            pods[field] = _both(pods.get(field), more)
    pods |= {field: role[field] for field in _READ if role.get(field) is not None}
    template = {**base, "spec": pods}
    for part, field in _FIELDS[:2]:
        if role.get(field) is not None:
            template = put(template, (part, field), _both(first(base, (part, field)), role[field]))
    return template


def _both(known: Any, more: Any) -> Any:
    """What a template has, with what is said beside it."""
    if not known or more is None:
        return known if more is None else more
    if isinstance(known, dict) and isinstance(more, dict):
        return {**known, **more}
    if isinstance(known, list) and isinstance(more, list):
        return [*known, *(item for item in more if item not in known)]
    return more


def _sparks(containers: list[Json], name: str) -> tuple[Json, list[Json]]:
    """The container of a template that Spark takes for its own, and the others."""
    named = [one for one in containers if one.get("name") == f"spark-kubernetes-{name}"]
    own: Json = next(iter(named or containers), {})
    return own, [one for one in containers if one is not own]


def _resources(container: Json, role: Json, asked: Json) -> Json:
    """What a template asks for, but for what Spark and the operator write over it."""
    found = container.get("resources") or {}
    gpu, counted = mapping(role, ("gpu",)), dict(asked)
    if gpu.get("name"):  # the operator passes over one without a name
        counted[str(gpu["name"])] = str(gpu.get("quantity", 1))
    limits = {k: v for k, v in (found.get("limits") or {}).items() if k not in counted}
    return {**found, "requests": {**(found.get("requests") or {}), **counted}, "limits": limits}
