"""Configuration files: every spelling is read, defaults are Kueue's, bad values are refused."""

from fractions import Fraction
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from federation.api.configuration import (
    ConfigurationError,
    read,
    to_fair_usage,
    to_pods_ready,
    to_resource_rules,
    to_retention,
    to_rules,
)
from federation.api.duration import DurationError, parse_duration
from federation.core.devices.asking.asking import ContainerAsk, pod_wants
from federation.core.devices.wants import CardWants
from federation.core.policies import (
    FairStrategy,
    FairUsage,
    PodsReady,
    RequeueTimestamp,
    ResourceRules,
    Retention,
    Rules,
    Transformation,
    TransformationStrategy,
    UndeclaredResources,
)

SEEDS = Path(__file__).parents[3].parent / "shared" / "seed-manifests"
FINAL, INITIAL = FairStrategy.FINAL_SHARE, FairStrategy.INITIAL_SHARE


def config(version="v1beta2", **sections):
    """A Configuration in Kueue's own format."""
    return {
        "apiVersion": f"config.kueue.x-k8s.io/{version}",
        "kind": "Configuration",
        **sections,
    }


def settings(version="v1beta2", **sections):
    """The Configuration that these sections are read as."""
    return read(config(version, **sections)).configuration


def problems(**sections):
    """Field paths and texts of what is refused."""
    with pytest.raises(ConfigurationError) as raised:
        read(config(**sections))
    return {".".join(map(str, p.path)): p.message for p in raised.value.problems}


def test_an_empty_file_means_kueues_defaults():
    """Pods must be ready in 30 minutes, nothing is deleted, no fair sharing."""
    empty = settings()

    assert to_rules(empty) == Rules()
    assert to_pods_ready(empty) == PodsReady()
    assert to_retention(empty) == Retention()
    assert to_resource_rules(empty) == ResourceRules()
    assert to_fair_usage(empty) is None
    assert empty.integrations.frameworks is None
    assert not empty.manage_jobs_without_queue_name


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ({}, PodsReady()),
        ({"timeout": "10m"}, PodsReady(600, 600)),
        ({"timeout": "0s"}, PodsReady()),
        ({"timeout": None, "requeuingStrategy": None}, PodsReady()),
        ({"timeout": "10m", "recoveryTimeout": "0s"}, PodsReady(600, None)),
        ({"recoveryTimeout": "1h30m"}, PodsReady(1800, 5400)),
        ({"blockAdmission": True}, PodsReady(block_admission=True)),
        ({"enable": False, "timeout": "10m"}, None),
        (
            {
                "requeuingStrategy": {
                    "timestamp": "Creation",
                    "backoffBaseSeconds": 5,
                    "backoffMaxSeconds": 50,
                    "backoffLimitCount": 0,
                }
            },
            PodsReady(
                timestamp=RequeueTimestamp.CREATION,
                backoff_base_s=5,
                backoff_max_s=50,
                backoff_limit=0,
            ),
        ),
    ],
)
def test_wait_for_pods_ready(section, expected):
    """Each field, and what is left out."""
    assert to_pods_ready(settings(waitForPodsReady=section)) == expected


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        (None, None),
        ({}, None),
        ({"enable": False}, None),
        ({"enable": True}, PodsReady(300, 300, block_admission=True)),
        ({"enable": True, "blockAdmission": False, "timeout": "1m"}, PodsReady(60, 60)),
    ],
)
def test_wait_for_pods_ready_in_v1beta1(section, expected):
    """There it must be switched on, is shorter, and blocks."""
    sections = {} if section is None else {"waitForPodsReady": section}
    assert to_pods_ready(settings("v1beta1", **sections)) == expected


def test_a_gate_turns_waiting_off():
    """DisableWaitForPodsReady wins over the section; the rule of the cycle follows."""
    off = settings(
        waitForPodsReady={"blockAdmission": True}, featureGates={"DisableWaitForPodsReady": True}
    )
    on = settings(waitForPodsReady={"blockAdmission": True})

    assert to_pods_ready(off) is None
    assert not to_rules(off).block_admission
    assert to_rules(on).block_admission


@pytest.mark.parametrize(
    ("version", "section", "expected"),
    [
        ("v1beta2", {}, (FINAL, INITIAL)),
        ("v1beta2", {"preemptionStrategies": ["LessThanInitialShare"]}, (INITIAL,)),
        ("v1beta2", {"enable": False}, ()),
        ("v1beta2", None, ()),
        ("v1beta1", {"preemptionStrategies": ["LessThanInitialShare"]}, ()),
        ("v1beta1", {"enable": True}, (FINAL, INITIAL)),
    ],
)
def test_fair_sharing(version, section, expected):
    """Present means on, except in v1beta1, which has a switch."""
    rules = to_rules(settings(version, fairSharing=section))
    assert rules.fair_strategies == expected
    assert rules.fair_sharing == bool(expected)


def test_resources():
    """Prefixes, transformations with exact amounts, and undeclared resources."""
    found = settings(
        resources={
            "excludeResourcePrefixes": ["example.com/"],
            "quotaCheckStrategy": "IgnoreUndeclared",
            "transformations": [
                {
                    "input": "nvidia.com/mig-1g.5gb",
                    "strategy": "Replace",
                    "multiplyBy": "nvidia.com/gpu",
                    "outputs": {"example.com/memory": "5Gi", "example.com/share": "-100m"},
                },
                {"input": "cpu", "outputs": {"example.com/credits": 0.5}},
            ],
        }
    )
    assert to_rules(found).undeclared is UndeclaredResources.IGNORE
    assert to_resource_rules(found) == ResourceRules(
        ("example.com/",),
        (
            Transformation(
                "nvidia.com/mig-1g.5gb",
                TransformationStrategy.REPLACE,
                "nvidia.com/gpu",
                {"example.com/memory": Fraction(5 * 2**30), "example.com/share": Fraction(-1, 10)},
            ),
            Transformation("cpu", outputs={"example.com/credits": Fraction(1, 2)}),
        ),
    )


def test_cards():
    """HAMi's device configuration, and its mapping to totals."""
    found = settings(
        deviceConfig={"nvidia": {"resourceMemoryName": "x/mem", "memoryFactor": 10}},
        resources={
            "transformations": [
                {
                    "input": "x/mem",
                    "strategy": "Replace",
                    "multiplyBy": "nvidia.com/gpu",
                    "outputs": {"x/total-mem": "1"},
                }
            ]
        },
    )
    vendors = to_resource_rules(found).vendors
    asked = ContainerAsk("c", limits={"nvidia.com/gpu": "2", "x/mem": "3"})
    wants = pod_wants([asked], {}, vendors)
    assert wants.containers[0].cards == (CardWants("NVIDIA", 2, 30),)
    quotas = to_rules(found).cards
    assert quotas.amounts(wants, ["x/total-mem"], {}) == {"x/total-mem": 60}
    assert not quotas.names(wants, ["x/mem"])


@pytest.mark.parametrize(
    ("body", "path", "said"),
    [
        ({"deviceConfig": {"nvidia": {"memoryFactor": "ten"}}}, ("deviceConfig",), "memoryFactor"),
        (
            {
                "resources": {
                    "transformations": [
                        {"input": "nvidia.com/gpumem", "multiplyBy": "cpu", "outputs": {"x/m": 1}}
                    ]
                }
            },
            ("resources", "transformations"),
            "number of cards only",
        ),
    ],
)
def test_what_cannot_be_made_of_cards_is_refused(body, path, said):
    """Where it is in the file, with what is wrong."""
    with pytest.raises(ConfigurationError, match=said) as caught:
        settings(**body)
    assert caught.value.problems[0].path == path


def test_retention_partial_admission_and_fair_usage():
    """The remaining settings of the core."""
    found = settings(
        objectRetentionPolicies={
            "workloads": {"afterFinished": "24h", "afterDeactivatedByKueue": "0s"}
        },
        featureGates={"PartialAdmission": False},
        admissionFairSharing={
            "usageHalfLifeTime": "168h",
            "resourceWeights": {"cpu": 2, "memory": 0},
        },
    )
    assert to_retention(found) == Retention(86400, 0)
    assert not to_rules(found).partial_admission
    assert to_fair_usage(found) == FairUsage(604800, 300, {"cpu": 2.0, "memory": 0.0})


@pytest.mark.parametrize(
    ("sections", "where", "said"),
    [
        ({"waitForPodsReady": {"timeout": "10"}}, "waitForPodsReady.timeout", "not a duration"),
        ({"waitForPodsReady": {"timeout": 600}}, "waitForPodsReady.timeout", "string"),
        ({"waitForPodsReady": {"timeout": "-5m"}}, "waitForPodsReady.timeout", "negative"),
        (
            {"waitForPodsReady": {"blockAdmission": "true"}},
            "waitForPodsReady.blockAdmission",
            "boolean",
        ),
        ({"waitForPodsReady": [1]}, "waitForPodsReady", "mapping"),
        (
            {"waitForPodsReady": {"requeuingStrategy": {"backoffBaseSeconds": -1}}},
            "waitForPodsReady.requeuingStrategy.backoffBaseSeconds",
            "greater than or equal to 0",
        ),
        (
            {"waitForPodsReady": {"requeuingStrategy": {"timestamp": "Now"}}},
            "waitForPodsReady.requeuingStrategy.timestamp",
            "'Eviction' or 'Creation'",
        ),
        (
            {"fairSharing": {"preemptionStrategies": [INITIAL, FINAL]}},
            "fairSharing.preemptionStrategies",
            "it must be [LessThanOrEqualToFinalShare] or [LessThanInitialShare] or",
        ),
        (
            {"resources": {"transformations": [{"input": "a"}, {"input": "a"}]}},
            "resources.transformations",
            "input a has two transformations",
        ),
        (
            {"resources": {"transformations": [{"input": "a", "outputs": {"b": "many"}}]}},
            "resources.transformations.0.outputs.b",
            "not a quantity",
        ),
        ({"resources": {"transformations": [{}]}}, "resources.transformations.0.input", "required"),
        (
            {"admissionFairSharing": {"usageSamplingInterval": "0s"}},
            "admissionFairSharing.usageSamplingInterval",
            "longer than 0s",
        ),
        (
            {"admissionFairSharing": {"resourceWeights": {"cpu": -1}}},
            "admissionFairSharing.resourceWeights.cpu",
            "greater than or equal to 0",
        ),
        (
            {"objectRetentionPolicies": {"workloads": {"afterFinished": "1 day"}}},
            "objectRetentionPolicies.workloads.afterFinished",
            "not a duration",
        ),
        ({"spec": [1]}, "spec", "mapping"),
        ({"spec": {"waitForPodsReady": {"timeout": "x"}}}, "spec.waitForPodsReady.timeout", "x"),
        ({"namespace": "a", "spec": {"namespace": "b"}}, "spec.namespace", "keep one"),
    ],
)
def test_bad_values_are_refused_with_their_field(sections, where, said):
    """The path is the one in the file."""
    found = problems(**sections)
    assert list(found) == [where]
    assert said in found[where]


@pytest.mark.parametrize("version", ["v1", "v1alpha1", ""])
def test_unknown_versions_are_refused(version):
    """With the versions that are known."""
    with pytest.raises(ConfigurationError, match=r"config\.kueue\.x-k8s\.io/v1beta2"):
        read(config(version))


def test_unknown_fields_are_told_and_passed_over():
    """With the nearest known name; an unknown integration too."""
    reading = read(
        config(
            waitForPodReady={"timeout": "1m"},
            resources={"transformation": []},
            integrations={"frameworks": ["batch/jobs"]},
        )
    )
    assert [str(notice) for notice in reading.notices] == [
        "integrations.frameworks[0]: there is no integration batch/jobs; did you mean batch/job?",
        "waitForPodReady: there is no such field; did you mean waitForPodsReady?; it has no effect",
        "resources.transformation: there is no such field; did you mean transformations?;"
        " it has no effect",
    ]
    assert to_pods_ready(reading.configuration) == PodsReady()


@pytest.mark.skipif(not SEEDS.is_dir(), reason="no seed manifests beside the checkout")
def test_the_seeds_are_read():
    """Fields below spec and spec.controllerConfig, KueueConfiguration and `enabled`."""
    found = {
        path.stem[:2]: read(yaml.safe_load(path.read_text(encoding="utf-8")))
        for path in SEEDS.glob("3*.yaml")
    }
    loaded = {name: reading.configuration for name, reading in found.items()}

    assert loaded["30"].integrations.frameworks[-1] == "kubeflow.org/xgboostjob"
    assert to_rules(loaded["31"]).fair_strategies == (FINAL, INITIAL)
    assert to_retention(loaded["32"]) == Retention(86400, None)
    assert to_pods_ready(loaded["33"]) == PodsReady(600, 600)
    assert loaded["33"].leader_election == {"leaseDuration": "15s", "renewDeadline": "10s"}
    told = {notice.path[-1] for notice in found["33"].notices if not notice.mild}
    assert told == {"kind", "queueingStrategy", "enabled"}
    assert all(notice.mild for notice in found["32"].notices)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("0s", 0),
        ("5m", 300),
        ("1h30m", 5400),
        ("1.5h", 5400),
        (".5s", 0.5),
        ("1ms2us3ns", 0.001002003),
        ("-1m", -60),
        ("+1m", 60),
        ("3µs", 3e-6),
        ("3μs", 3e-6),
    ],
)
def test_durations(text, expected):
    """As Go writes them."""
    assert parse_duration(text) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "text",
    ["", "5", "m", "5 m", "5d", "1h-3m", "--1s", ".s", "5m ", "\u0665m", "300y", "9" * 99 + "h"],
)
def test_what_is_no_duration(text):
    """Days, missing units, other digits, more than 292 years."""
    with pytest.raises(DurationError):
        parse_duration(text)


@given(st.integers(0, 999), st.integers(0, 59), st.integers(0, 59))
def test_durations_add_up(hours, minutes, seconds):
    """Every part counts once."""
    total = 3600 * hours + 60 * minutes + seconds
    assert parse_duration(f"{hours}h{minutes}m{seconds}s") == total
    assert parse_duration(f"-{total}s") == -total
