"""What can be known to be wrong with an object before the API server sees it."""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic import ValidationError

from federation.api.fields import DNS_SUBDOMAIN_PATTERN
from federation.api.meta import KubeObject
from federation.api.names import JOB_CONTROLLER, Label
from federation.api.problems import Problem, problems, unknown_fields
from federation.api.registry import KINDS, REGISTRY
from federation.api.spelling import normalize, without_nulls
from federation.core.facts import BATCH_JOB
from federation.core.quantity import QuantityError
from federation.jobs import batch_job
from fedq.kind_checks import check_kind, queue_of, unqueued
from fedq.kinds import job_kind

Json = dict[str, Any]
Found = tuple[list[str], list[str]]
"""Problems, warnings."""

_OURS = {kind.name for kind in KINDS}


def check_name(meta: Json) -> list[str]:
    """Problems of the name."""
    name, prefix = meta.get("name"), meta.get("generateName")
    if not name and not prefix:
        return ["metadata.name is missing"]
    if name and not (isinstance(name, str) and re.fullmatch(DNS_SUBDOMAIN_PATTERN, name)):
        return [
            f"{name!r} cannot be a name: use a-z, 0-9, '-' and '.', with a letter or digit at"
            " both ends (quote it if it is a number)"
        ]
    return []


def check_fields(body: Json) -> Found:
    """Problems and warnings of the rest."""
    kind = job_kind(body["apiVersion"], body["kind"])
    if kind is not None:
        return check_job(body) if kind.name == BATCH_JOB else check_kind(kind, body)
    if body["kind"] == "Deployment" and not queue_of(body):
        return [], [unqueued(body)]
    return check_model(body) if body["kind"] in _OURS else ([], [])


def check_model(body: Json) -> Found:
    """An object of the registry against its model; fields that no model knows are warned of."""
    model = read_model(body)
    if isinstance(model, list):
        return [str(problem) for problem in model], []
    unknown = [found for found in unknown_fields(model) if found.path[0] != "metadata"]
    return [], [f"{body['kind']}: {found}" for found in unknown]


def read_model(body: Json) -> KubeObject | list[Problem]:
    """An object of the registry, or what is wrong with it. A number in quotes is no number: the
    API server refuses it too.
    """
    group, _, version = str(body.get("apiVersion", "")).rpartition("/")
    kind = REGISTRY[group, version, str(body.get("kind", ""))]
    try:
        return kind.model.model_validate_json(
            json.dumps(without_nulls(normalize(body))), strict=True
        )
    except ValidationError as error:
        return problems(error)
    except (TypeError, KeyError, ValueError, AttributeError):  # a status in an old spelling
        return [Problem((), "it cannot be read in its old spelling; write that of v1beta2")]


def check_job(body: Json) -> Found:
    """A Job, as far as its queueing goes; the API server checks the rest."""
    spec = body.get("spec")
    template = spec.get("template") if isinstance(spec, dict) else None
    pods = template.get("spec") if isinstance(template, dict) else None
    if not isinstance(spec, dict) or not isinstance(pods, dict):
        return ["spec.template.spec is missing: a Job needs a pod template"], []
    containers = pods.get("containers")
    if not isinstance(containers, list) or not all(isinstance(c, dict) for c in containers):
        return ["spec.template.spec.containers must be a list of containers"], []
    found = [] if containers else ["spec.template.spec.containers is empty"]
    if pods.get("restartPolicy") not in ("Never", "OnFailure"):
        found.append("spec.template.spec.restartPolicy must be Never or OnFailure")
    try:
        batch_job.pod_sets(body)
    except QuantityError as error:
        found.append(f"a resource request cannot be read: {error}")
    except (TypeError, AttributeError, ValueError):
        found.append("parallelism, completions or resources have values of a wrong type")
    return found, _job_warnings(body, spec)


def _job_warnings(body: Json, spec: Json) -> list[str]:
    warnings = []
    if not (body["metadata"].get("labels") or {}).get(Label.QUEUE_NAME.value):
        warnings.append(
            f"Job {body['metadata'].get('name', '')} names no queue and will not be queued: add"
            f" the label {Label.QUEUE_NAME.value}: NAME (of a LocalQueue) to metadata.labels"
        )
    manager = spec.get("managedBy", JOB_CONTROLLER)
    if manager not in (JOB_CONTROLLER, batch_job.MANAGED_BY):
        warnings.append(f"spec.managedBy is {manager}: Fedq leaves such Jobs alone; remove it")
    return warnings
