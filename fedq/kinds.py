"""The kinds that can be submitted, and what to say about those that cannot."""

from __future__ import annotations

import difflib

from federation.api.registry import KINDS, REGISTRY
from federation.edge import resources as r
from federation.edge.resources import Resource
from federation.jobs.kinds.kind import JobKind
from fedq.refs import SWITCH_ON, known_kinds, switched_off

DEPLOYMENTS = Resource("apps", "v1", "deployments")
"""No kind of job: its pods are."""

BUILT_IN: dict[str, Resource] = {
    "Job": r.JOBS,
    "Deployment": DEPLOYMENTS,
    "Namespace": r.NAMESPACES,
    "ConfigMap": r.CONFIGMAPS,
    "Secret": r.SECRETS,
    "PriorityClass": r.PRIORITY_CLASSES,
}


def resource_of(api_version: str, kind: str) -> Resource | str:
    """Where objects of a kind are created; or what is wrong with apiVersion and kind."""
    if not api_version or not kind:
        return "apiVersion and kind are missing: is this a Kubernetes object?"
    if (off := _off(api_version, kind)) is not None:
        return f"{switched_off(off)}. {SWITCH_ON}"
    group, _, version = api_version.rpartition("/")
    built_in = BUILT_IN.get(kind)
    if built_in is not None and (built_in.group, built_in.version) == (group, version):
        return built_in
    known = REGISTRY.get((group, version, kind))
    if known is not None:
        return Resource(known.group, known.versions[0], known.plural, known.scope == "Namespaced")
    job = job_kind(api_version, kind)
    return r.resource_of(job) if job is not None else _complaint(api_version, kind)


def _off(api_version: str, kind: str) -> JobKind | None:
    """The kind of job that it is, if that is switched off. Deployments are queued pod by pod."""
    wanted = ("v1", "Pod") if (api_version, kind) == ("apps/v1", "Deployment") else ()
    found = wanted or (api_version, kind)
    return next((k for k in known_kinds().off if (k.api_version, k.kind) == found), None)


def job_kind(api_version: str, kind: str) -> JobKind | None:
    """The kind of job that it is; None if it is none."""
    return known_kinds().find(api_version, kind)


def served() -> dict[str, tuple[str, ...]]:
    """Kind → apiVersions that are accepted."""
    own = {k.name: tuple(f"{k.group}/{v}" for v in k.versions) for k in KINDS}
    others = {k: (f"{x.group}/{x.version}".lstrip("/"),) for k, x in BUILT_IN.items()}
    found = {**others, **own}
    for kind in known_kinds():
        before = found.get(kind.kind, ())
        found[kind.kind] = tuple(dict.fromkeys((*before, kind.api_version)))
    return found


def _complaint(api_version: str, kind: str) -> str:
    versions = served()
    if kind in versions:
        accepted = " and ".join(versions[kind])
        return f"{kind} is not served as {api_version}, but as {accepted}: change apiVersion"
    close = difflib.get_close_matches(kind, versions, n=1)
    known = f"did you mean {close[0]}?" if close else f"known are {', '.join(sorted(versions))}."
    return f"unknown kind {kind} ({api_version}): {known} Others are created with kubectl"
