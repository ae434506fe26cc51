"""`fedq lint`: claims of devices, each rule with good and bad cases."""

from __future__ import annotations

import pytest

from fedq.lint.finding import Severity
from tests.unit.fedq.lint_support import WELL, Json, config, lint, put
from tests.unit.jobs.claim_build import DRIVER, template

SPEC = "spec.template.spec"
CHAIN = WELL[:-1]


def claiming(**entry: str) -> Json:
    return put(WELL[-1], f"{SPEC}.resourceClaims", [{"name": "c", **entry}])


def by(name: str) -> Json:
    return claiming(resourceClaimTemplateName=name)


def changed(**exactly: object) -> Json:
    body = template("t", namespace="team")
    for name, value in exactly.items():
        body = put(body, f"spec.spec.devices.requests.0.exactly.{name}", value)
    return body


TEMPLATE = template("t", namespace="team")
MAPPED = {"name": "gpus", "deviceClassNames": ["hami-gpu"]}
BY_MEMORY = {**MAPPED, "sources": [{"capacity": {"name": "memory", "driver": DRIVER}}]}


def found(*objects: Json) -> list[tuple[str, Severity]]:
    return [(line.rule, line.severity) for line in lint(*CHAIN, *objects)]


@pytest.mark.parametrize(
    "objects",
    [
        (by("t"), TEMPLATE),
        (by("t"), TEMPLATE, config(resources={"deviceClassMappings": [MAPPED]})),
        (by("t"), TEMPLATE, config(resources={"deviceClassMappings": [BY_MEMORY]})),
    ],
)
def test_nothing_to_say(objects: tuple[Json, ...]) -> None:
    assert found(*objects) == []


def test_a_template_that_is_missing() -> None:
    assert found(by("u"), TEMPLATE) == [("template-missing", Severity.WARNING)]
    assert found(by("u")) == [("template-missing", Severity.INFO)]
    elsewhere = template("t", namespace="other")
    assert found(by("t"), elsewhere) == [("template-missing", Severity.WARNING)]


GOOD = (by("t"), TEMPLATE)
CASES: list[tuple[str, Severity, tuple[Json, ...], tuple[Json, ...]]] = [
    ("template-missing", Severity.WARNING, (by("u"), TEMPLATE), GOOD),
    ("claim-uncounted", Severity.WARNING, (claiming(resourceClaimName="mine"),), GOOD),
    ("claim-uncounted", Severity.WARNING, (by("t"), TEMPLATE, config()), GOOD),
    ("claim-uncounted", Severity.WARNING, (by("t"), changed(allocationMode="All")), GOOD),
    (
        "claim-uncounted",
        Severity.WARNING,
        (by("t"), changed(selectors=[{"cel": {"expression": "device.x("}}])),
        GOOD,
    ),
    (
        "claim-uncounted",
        Severity.WARNING,
        (by("t"), put(TEMPLATE, "spec.spec.devices.requests.0.exactly", None)),
        GOOD,
    ),
]


@pytest.mark.parametrize(("rule", "severity", "bad", "good"), CASES)
def test_warned(
    rule: str, severity: Severity, bad: tuple[Json, ...], good: tuple[Json, ...]
) -> None:
    assert found(*bad) == [(rule, severity)]
    assert found(*good) == []
