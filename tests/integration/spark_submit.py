"""A stand-in for spark-submit of Spark 3.5 in cluster mode, as far as the cluster sees it.

It makes the driver's pod and its ConfigMaps of the arguments, and ends; no Spark is here to run.
Pods are made as the page Running Spark on Kubernetes says: labels, resources, pod templates. It is
run by the operator, as a program of its own: `spark_home` installs it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]
PROPERTIES, TEMPLATE = "spark.properties", "pod-spec-template.yml"
_LEAST_OVERHEAD_MIB = 384


def spark_home(folder: Path, kubectl: Path) -> Path:
    """A folder to be SPARK_HOME."""
    program = folder / "bin" / "spark-submit"
    program.parent.mkdir(parents=True)
    program.write_text(
        f"#!/bin/sh\nKUBECTL='{kubectl}' exec '{sys.executable}' -I '{Path(__file__)}' \"$@\"\n"
    )
    program.chmod(0o755)
    return folder


def properties_of(arguments: list[str]) -> dict[str, str]:
    """Options as Spark's properties; of several that say the same the last one counts."""
    found, rest = {}, list(arguments)
    while rest and rest[0].startswith("--"):
        option, value = rest.pop(0), rest.pop(0)
        if option == "--conf":
            key, _, value = value.partition("=")
            found[key] = value
        elif option == "--name":
            found["spark.app.name"] = value
        elif option == "--deploy-mode" and value != "cluster":
            raise SystemExit(f"only cluster mode is played, not {value}")
    if rest:
        found["spark.submit.file"] = rest[0]
    return found


def _under(properties: dict[str, str], prefix: str) -> dict[str, str]:
    given = properties.items()
    return {key.removeprefix(prefix): value for key, value in given if key.startswith(prefix)}


def _mib(text: str) -> int:
    digits = text.lower().removesuffix("b")
    unit = {"k": 1 / 1024, "m": 1, "g": 1024, "t": 1 << 20}.get(digits[-1:])
    return int(digits) if unit is None else int(int(digits[:-1]) * unit)


def _memory(properties: dict[str, str], role: str) -> int:
    memory = _mib(properties.get(f"spark.{role}.memory", "1g"))
    outside = properties.get("spark.submit.file", "").endswith((".py", ".R"))
    factor = properties.get("spark.kubernetes.memoryOverheadFactor", "0.4" if outside else "0.1")
    factor = properties.get(f"spark.{role}.memoryOverheadFactor", factor)
    overhead = properties.get(f"spark.{role}.memoryOverhead")
    if overhead is not None:
        return memory + _mib(overhead)
    return memory + max(int(memory * float(factor)), _LEAST_OVERHEAD_MIB)


def pod(properties: dict[str, str], role: str, name: str, template: Json) -> Json:
    """The pod of a driver or executor, of its template."""
    at, meta = f"spark.kubernetes.{role}", template.get("metadata") or {}
    spec = dict(template.get("spec") or {})
    wanted = properties.get(f"{at}.podTemplateContainerName", "")
    containers = spec.pop("containers", None) or [{}]
    own = next((one for one in containers if one.get("name") == wanted), containers[0])
    cores = properties.get(f"spark.{role}.cores", "1")
    given = {
        "cpu": properties.get(f"{at}.request.cores", cores),
        "memory": f"{_memory(properties, role)}Mi",
    }
    limits = {"memory": given["memory"]}
    if (most := properties.get(f"{at}.limit.cores")) is not None:
        limits["cpu"] = most
    resources = own.get("resources") or {}
    started = {
        "name": f"spark-kubernetes-{role}",
        "image": properties.get(f"{at}.container.image", "example.invalid/spark"),
        **{key: value for key, value in own.items() if key != "resources"},
        "resources": {
            "requests": {**(resources.get("requests") or {}), **given},
            "limits": {**(resources.get("limits") or {}), **limits},
        },
    }
    labels = {
        **_under(properties, f"{at}.label."),
        "spark-role": role,
        "spark-app-selector": properties["spark.app.id"],
        "spark-app-name": properties["spark.app.name"],
    }
    selector = {
        **_under(properties, "spark.kubernetes.node.selector."),
        **_under(properties, f"{at}.node.selector."),
    }
    account = properties.get(f"spark.kubernetes.authenticate.{role}.serviceAccountName")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **meta,
            "name": name,
            "namespace": properties["spark.kubernetes.namespace"],
            "labels": {**(meta.get("labels") or {}), **labels},
            "annotations": {
                **(meta.get("annotations") or {}),
                **_under(properties, f"{at}.annotation."),
            },
        },
        "spec": {
            **spec,
            "restartPolicy": "Never",
            "nodeSelector": {**(spec.get("nodeSelector") or {}), **selector},
            "containers": [started, *(one for one in containers if one is not own)],
            **({"serviceAccountName": account} if account else {}),
        },
    }


def executor(properties: dict[str, str], number: int, driver: Json, template: Json) -> Json:
    """The pod of an executor as its driver makes it."""
    name = f"{properties['spark.app.id'][-22:]}-exec-{number}"
    made = pod(properties, "executor", name, template)
    made["metadata"]["labels"]["spark-exec-id"] = str(number)
    owners = made["metadata"].get("ownerReferences") or []
    made["metadata"]["ownerReferences"] = [*owners, owned_by(driver, controller=True)]
    return made


def owned_by(driver: Json, *, controller: bool) -> Json:
    """A reference to the driver's pod."""
    meta = driver["metadata"]
    more = {"controller": True} if controller else {}
    return {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"], **more}


def _template(properties: dict[str, str], role: str) -> Json:
    file = properties.get(f"spark.kubernetes.{role}.podTemplateFile")
    found: Json = yaml.safe_load(Path(file).read_text()) if file else {}
    return found


def _create(body: Json) -> Json:
    done = subprocess.run(
        [os.environ["KUBECTL"], "create", "-f", "-", "-o", "json"],
        input=json.dumps(body),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    made: Json = json.loads(done.stdout)
    return made


def config_map(driver: str) -> str:
    """The name of the ConfigMap of a driver."""
    return f"{driver}-conf-map"


def submit(arguments: list[str]) -> None:
    """What the operator asks for."""
    properties = properties_of(arguments)
    properties["spark.app.id"] = f"spark-{uuid.uuid4().hex}"
    name = properties["spark.kubernetes.driver.pod.name"]
    made = pod(properties, "driver", name, _template(properties, "driver"))
    driver = _create(made)
    _create(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": config_map(driver["metadata"]["uid"]),
                "namespace": driver["metadata"]["namespace"],
                "ownerReferences": [owned_by(driver, controller=False)],
            },
            "data": {
                PROPERTIES: json.dumps(properties),
                TEMPLATE: yaml.safe_dump(_template(properties, "executor")),
            },
        }
    )


if __name__ == "__main__":
    submit(sys.argv[1:])
