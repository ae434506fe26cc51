"""Configuration: how the programs behave, in the file format of Kueue's manager.

`read` accepts every spelling and tells of the old ones; the `to_*` functions give the core its
settings, with Kueue's defaults for what the file leaves out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from pydantic import ValidationError

from federation.api.configuration_devices import device_rules
from federation.api.configuration_kinds import external_problem, switched_off, undescribed
from federation.api.configuration_model import FRAMEWORKS, STRATEGIES, Configuration
from federation.api.configuration_multikueue import AccessProvider
from federation.api.configuration_spelling import Notice, flatten
from federation.api.duration import parse_duration, seconds
from federation.api.kinds.row import Row
from federation.api.problems import Path, Problem, problems, suggest, unknown_fields
from federation.api.spelling import without_nulls
from federation.core.devices.quota.rules import TransformationError, card_quotas
from federation.core.devices.wire.undecodable import UndecodableError
from federation.core.devices.wire.vendor_config import of_device_config
from federation.core.devices.wire.vendor_table import VENDORS
from federation.core.policies import (
    FairUsage,
    PodsReady,
    Policies,
    RequeueTimestamp,
    ResourceRules,
    Retention,
    Rules,
    Transformation,
    TransformationStrategy,
)
from federation.core.quantity import exact_quantity

Json = dict[str, Any]

_TIMEOUT_S: Final = 1800.0
_OLD_TIMEOUT_S: Final = 300.0


class ConfigurationError(ValueError):
    """The file cannot be used. `problems` has each bad field, with its path in the file."""

    def __init__(self, found: list[Problem]) -> None:
        super().__init__("; ".join(map(str, found)))
        self.problems = found


@dataclass(frozen=True, slots=True)
class Reading:
    """A configuration, and what is to be told about the file: nothing that stops its use."""

    configuration: Configuration
    notices: tuple[Notice, ...] = ()


def is_configuration(obj: Json) -> bool:
    """Whether the object means to be a Configuration."""
    return obj.get("kind") in ("Configuration", "KueueConfiguration")


def read(obj: Json) -> Reading:
    """Read a Configuration in any spelling. Raises ConfigurationError with every bad field.

    A field that is null is as if it were left out, a number in quotes is no number.
    """
    flat = flatten(without_nulls(obj))
    if flat.problems:
        raise ConfigurationError(list(flat.problems))
    try:
        configuration = Configuration.model_validate_json(json.dumps(flat.body), strict=True)
    except ValidationError as error:
        found = [Problem(_in_file(p.path, flat.home), p.message) for p in problems(error)]
        raise ConfigurationError(found) from error
    if wrong := _cards_problem(configuration):
        raise ConfigurationError([Problem(_in_file(wrong.path, flat.home), wrong.message)])
    if wrong := _kinds_problem(configuration):
        raise ConfigurationError([Problem(_in_file(wrong.path, flat.home), wrong.message)])
    notices = [*flat.notices, *_frameworks(configuration, flat.home)]
    notices += (
        Notice(_in_file(p.path, flat.home), f"{p.message}; it has no effect", unknown=True)
        for p in unknown_fields(configuration)
        if p.path[0] != "metadata"
    )
    return Reading(configuration, tuple(notices))


def _cards_problem(configuration: Configuration) -> Problem | None:
    """What is wrong with the names of cards, or with what is made of requests for them."""
    try:
        rules = to_resource_rules(configuration)
    except UndecodableError as error:
        return Problem(("deviceConfig",), str(error))
    try:
        card_quotas(rules)
    except TransformationError as error:
        return Problem(("resources", "transformations"), str(error))
    return None


def _kinds_problem(configuration: Configuration) -> Problem | None:
    """What is wrong with the kinds that it adds, or with the switches of others."""
    if found := external_problem(configuration.multi_kueue.external_frameworks):
        return Problem(("multiKueue", "externalFrameworks", found[0]), found[1])
    named = configuration.integrations.frameworks or []
    if "deployment" in named and "pod" not in named:
        path = ("integrations", "frameworks", named.index("deployment"))
        return Problem(path, "the pods of Deployments are queued by pod: name that as well")
    return None


def _frameworks(configuration: Configuration, home: dict[str, Path]) -> list[Notice]:
    named, path = configuration.integrations, _in_file(("integrations",), home)
    wrong = [
        Notice(
            (*path, "frameworks", index),
            f"there is no integration {name}{suggest(name, FRAMEWORKS)}",
            unknown=True,
        )
        for index, name in enumerate(named.frameworks or ())
        if name not in FRAMEWORKS
    ]
    others = configuration.multi_kueue.external_frameworks
    return wrong + [
        Notice(
            (*path, "externalFrameworks", index),
            f"{named.external_frameworks[index]} is not known: describe it in"
            " multiKueue.externalFrameworks",
            unknown=True,
        )
        for index in undescribed(named.external_frameworks, others)
    ]


def _in_file(path: Path, home: dict[str, Path]) -> Path:
    """The path of a field where the file has it."""
    return (*home.get(str(path[0]), ()), *path) if path else path


def to_kinds(configuration: Configuration) -> tuple[Row, ...]:
    """The kinds of jobs that it adds."""
    return tuple(found.row() for found in configuration.multi_kueue.external_frameworks)


def to_switched_off(configuration: Configuration) -> frozenset[str]:
    """The kinds of jobs that it does not switch on, as Kind.version.group."""
    named = configuration.integrations
    added = configuration.multi_kueue.external_frameworks
    return switched_off(named.frameworks, named.external_frameworks, added)


def to_policies(configuration: Configuration) -> Policies:
    """What the core is told."""
    return Policies(
        to_rules(configuration),
        to_resource_rules(configuration),
        to_pods_ready(configuration),
        to_retention(configuration),
        to_fair_usage(configuration),
        configuration.multi_kueue.dispatching(),
    )


def to_access_providers(configuration: Configuration) -> dict[str, AccessProvider] | None:
    """How clusters of ClusterProfiles are accessed; None where those are switched off."""
    gate = configuration.feature_gates.get("MultiKueueClusterProfile")
    return configuration.multi_kueue.providers(gate)


def to_rules(configuration: Configuration) -> Rules:
    """What changes decisions of the cycle."""
    fair = configuration.fair_sharing
    strategies = tuple(fair.preemption_strategies) or STRATEGIES[-1] if fair else ()
    pods_ready = to_pods_ready(configuration)
    return Rules(
        fair_strategies=strategies if fair and _enabled(configuration, fair.enable) else (),
        undeclared=configuration.resources.quota_check_strategy,
        cards=card_quotas(to_resource_rules(configuration)),
        partial_admission=configuration.feature_gates.get("PartialAdmission", True),
        block_admission=pods_ready is not None and pods_ready.block_admission,
    )


def _enabled(configuration: Configuration, enable: bool | None) -> bool:
    """Of a section that is there: v1beta1 asks for `enable: true`, v1beta2 knows no switch."""
    return not configuration.is_v1beta1 if enable is None else enable


def to_pods_ready(configuration: Configuration) -> PodsReady | None:
    """waitForPodsReady, or None when unready pods are let be.

    On by default, off with `enable: false` or the gate DisableWaitForPodsReady. In v1beta1 it is
    on only with `enable: true`, and then times out after 5m and blocks admission by default.
    """
    wait, old = configuration.wait_for_pods_ready, configuration.is_v1beta1
    if configuration.feature_gates.get("DisableWaitForPodsReady", False):
        return None
    if wait is None:
        return None if old else PodsReady()
    if not _enabled(configuration, wait.enable):
        return None
    timeout = seconds(wait.timeout) or (_OLD_TIMEOUT_S if old else _TIMEOUT_S)
    recovery = timeout if wait.recovery_timeout is None else seconds(wait.recovery_timeout)
    again = wait.requeuing_strategy
    return PodsReady(
        timeout_s=timeout,
        recovery_timeout_s=recovery or None,
        block_admission=old if wait.block_admission is None else wait.block_admission,
        timestamp=RequeueTimestamp(again.timestamp),
        backoff_base_s=again.backoff_base_seconds,
        backoff_max_s=again.backoff_max_seconds,
        backoff_limit=again.backoff_limit_count,
    )


def to_retention(configuration: Configuration) -> Retention:
    """How long Workloads are kept after their end."""
    workloads = configuration.object_retention_policies.workloads
    return Retention(
        seconds(workloads.after_finished), seconds(workloads.after_deactivated_by_kueue)
    )


def to_resource_rules(configuration: Configuration) -> ResourceRules:
    """What requests become before quota is asked for."""
    resources = configuration.resources
    return ResourceRules(
        tuple(resources.exclude_resource_prefixes),
        tuple(
            Transformation(
                rule.input,
                TransformationStrategy(rule.strategy),
                rule.multiply_by or "",
                {name: _exact(amount) for name, amount in rule.outputs.items()},
            )
            for rule in resources.transformations
        ),
        device_rules(resources.device_class_mappings, configuration.feature_gates),
        of_device_config(configuration.device_config) if configuration.device_config else VENDORS,
    )


def _exact(amount: str | int | float) -> Fraction:
    return exact_quantity(str(amount))


def to_fair_usage(configuration: Configuration) -> FairUsage | None:
    """Admission fair sharing, or None when LocalQueues are not told apart."""
    sharing = configuration.admission_fair_sharing
    if sharing is None:
        return None
    return FairUsage(
        parse_duration(sharing.usage_half_life_time),
        parse_duration(sharing.usage_sampling_interval),
        dict(sharing.resource_weights),
    )
