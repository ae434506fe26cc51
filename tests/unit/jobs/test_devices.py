"""Pod templates that ask for cards: read, refused, counted and rewritten."""

from __future__ import annotations

from copy import deepcopy
from fractions import Fraction
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from federation.core.devices.asking.asking import WantsError
from federation.core.devices.wants import Role
from federation.core.devices.wire.vendor_table import VENDORS
from federation.core.limit_range import CONTAINER, LimitItem
from federation.core.policies import ResourceRules, Transformation, TransformationStrategy
from federation.jobs.admissibility import problem
from federation.jobs.containers import PodDefaults
from federation.jobs.devices import canonical, card_wants, spelling_problem
from federation.jobs.pods import pod_requests, pod_set
from tests.unit.jobs.seeds import SEEDS

GPU = "nvidia.com/gpu"


def container(name: str = "c", requests: Any = None, **limits: Any) -> dict[str, Any]:
    """Keyword names are NVIDIA's, with _ for -."""
    full = {f"nvidia.com/{key.replace('_', '-')}": value for key, value in limits.items()}
    resources = {"limits": full} | ({"requests": requests} if requests else {})
    return {"name": name, "resources": resources}


def template(*apps: Any, init: Any = (), annotations: Any = None, **spec: Any) -> dict[str, Any]:
    body = {"containers": list(apps), **spec}
    if init:
        body["initContainers"] = list(init)
    return {"metadata": {"annotations": annotations or {}}, "spec": body}


def test_roles_and_order() -> None:
    always = {"restartPolicy": "Always"}
    pod = template(
        container("app", gpu=1),
        container("log"),
        init=[container("setup"), container("proxy", gpumem=100) | always],
    )
    found = card_wants(pod)
    assert [(c.name, c.role, bool(c.cards)) for c in found.containers] == [
        ("setup", Role.INIT, False),
        ("proxy", Role.SIDECAR, True),
        ("app", Role.APP, True),
        ("log", Role.APP, False),
    ]


def test_pods_without_cards_have_none() -> None:
    assert pod_set("main", 1, template(container(requests={"cpu": 1}))).cards is None
    assert not card_wants({})


def test_annotations_come_along() -> None:
    pod = template(container(gpu=1), annotations={"hami.io/gpu-scheduler-policy": "mutex"})
    assert pod_set("main", 1, pod).cards.wishes.mutex


@pytest.mark.parametrize(
    ("pod", "wanted"),
    [
        (template(container(gpu=2, gpumem=1000)), {GPU: 2}),
        (template(container(gpumem="20Gi")), {GPU: 1}),
        (template(container(gpu=0, gpumem=4000)), {}),
        (template(container(gpu=1), container("d", gpu=2)), {GPU: 3}),
        (template(container(gpu=1), init=[container("i", gpu=4)]), {GPU: 4}),
        (template(container(**{"mig-1g.5gb": 2})), {"nvidia.com/mig-1g.5gb": 2}),
        (template(container(gpu=1, requests={"cpu": "500m"})), {GPU: 1, "cpu": 500}),
        (
            template({"name": "v", "resources": {"limits": {"volcano.sh/vgpu-number": 2}}}),
            {GPU: 2},
        ),
        (
            template({"name": "a", "resources": {"limits": {"huawei.com/Ascend910C": 1}}}),
            {"huawei.com/Ascend910C": 2},
        ),
    ],
)
def test_requests_have_cards_by_number_and_no_shares(pod: Any, wanted: dict[str, int]) -> None:
    assert pod_set("main", 1, pod).requests == wanted
    assert pod_requests(pod["spec"]) == wanted


def test_the_official_mapping_leaves_the_number_of_cards() -> None:
    rules = tuple(
        Transformation(
            f"nvidia.com/{name}",
            TransformationStrategy.REPLACE,
            GPU,
            {f"nvidia.com/total-{name}": Fraction(1)},
        )
        for name in ("gpumem", "gpucores")
    )
    defaults = PodDefaults(rules=ResourceRules((), rules))
    found = pod_set("main", 1, template(container(gpu=2, gpumem=9, gpucores=3)), defaults=defaults)
    assert found.requests == {GPU: 2}


def test_plain_transformations_read_the_number_of_cards() -> None:
    credits = Transformation(
        GPU, TransformationStrategy.RETAIN, "", {"example.com/credits": Fraction(10)}
    )
    defaults = PodDefaults(rules=ResourceRules((), (credits,)))
    found = pod_set("main", 1, template(container(gpumem=5)), defaults=defaults)
    assert found.requests == {GPU: 1, "example.com/credits": 10}


def test_defaults_of_the_namespace_count() -> None:
    item = LimitItem(CONTAINER, default={"nvidia.com/gpumem": Fraction(3000)})
    defaults = PodDefaults(limits={CONTAINER: item})
    (asked,) = card_wants(template(container(gpu=2)), defaults).containers[0].cards
    assert (asked.cards, asked.memory_mib) == (2, 3000)
    (own,) = card_wants(template(container(gpu=2, gpumem=10)), defaults).containers[0].cards
    assert own.memory_mib == 10


@pytest.mark.parametrize(
    ("pod", "said"),
    [
        (template(container(gpu=1, gpumem="1.5")), "container c: nvidia.com/gpumem"),
        (template(container(gpu=1, gpumem=1, gpu_memory=2)), "keep one of them"),
        (
            template(container(gpu=1), annotations={"hami.io/gpu-scheduler-policy": "best"}),
            "annotation hami.io/gpu-scheduler-policy",
        ),
        (template(container(gpu=1), nodeName="n1"), "spec.nodeName"),
        (
            template(container(gpumem=5) | {"securityContext": {"privileged": True}}),
            "privileged",
        ),
        (template(container(**{"gpumem-percentage": 101})), "percentage from 1 to 100"),
    ],
)
def test_refused(pod: Any, said: str) -> None:
    text = problem([("main", 1, pod)])
    assert said in text
    assert pod_set("main", 1, pod).count == 1, "and nothing breaks"


@pytest.mark.parametrize(
    "pod",
    [
        template(container(gpu=1) | {"securityContext": {"privileged": True}}),
        template(container(), nodeName="n1"),
        template(container(gpu=1, gpumem=5)),
    ],
)
def test_not_refused(pod: Any) -> None:
    assert problem([("main", 1, pod)]) == ""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            {"gpu": 1, "gpu-memory": "20Gi", "gpu-core-percent": 50},
            {"gpu": "1", "gpumem": "20480", "gpucores": "50"},
        ),
        ({"gpumem": "3G", "gpu": 1}, {"gpu": "1", "gpumem": "2862"}),
        ({"gpu": 1, "gpumem-percentage": 0}, {"gpu": "1"}),
        ({"gpu": 1, "gpumem": 0}, {"gpu": "1"}),
        ({"gpumem": "4Gi"}, {"gpumem": "4096"}),
        ({"gpumem-percentage": 0}, {"gpu": "1"}),
    ],
)
def test_requests_are_rewritten_as_hami_reads_them(before: Any, after: Any) -> None:
    requests = {"cpu": 1} | {f"nvidia.com/{name}": value for name, value in before.items()}
    pod = template(container(requests=requests, **before))
    kept = deepcopy(pod)
    new = canonical(pod, VENDORS)
    resources = new["spec"]["containers"][0]["resources"]
    assert resources["limits"] == {f"nvidia.com/{name}": text for name, text in after.items()}
    assert resources["requests"] == {"cpu": "1"}
    assert pod == kept
    assert card_wants(new) == card_wants(pod)
    assert canonical(new, VENDORS) is new
    assert "container c: device plugins" in spelling_problem(pod, VENDORS)


@pytest.mark.parametrize(
    "pod",
    [
        template(container(gpu=1)),
        template(container(gpu="1", gpumem="4k", gpucores=10)),
        template(container(gpumem=4000)),
        template(container(gpu=1, gpumem="4Ki")),
        template(container(gpu=0, gpumem=4)),
        template(container(gpu=1, requests={GPU: 1, "cpu": "1"})),
        template(container(**{"mig-1g.5gb": 1})),
        template(container(requests={"memory": "1Gi"})),
        {},
    ],
)
def test_what_is_plain_stays_as_it_is(pod: Any) -> None:
    assert canonical(pod, VENDORS) is pod
    assert spelling_problem(pod, VENDORS) == ""


def test_a_bad_request_is_told_elsewhere() -> None:
    assert spelling_problem(template(container(gpu="x")), VENDORS) == ""


@pytest.mark.skipif(not SEEDS.exists(), reason="the seed manifests are not here")
@pytest.mark.parametrize(
    ("file", "number", "wanted"),
    [
        ("56-vgpu-pod.yaml", 0, [(1, 20480, 0, 50)]),
        ("58-workload-v1beta1.yaml", 0, [(4, 0, 100, 100)]),
        ("57-pod-group.yaml", 0, []),
    ],
)
def test_seed_manifests(file: str, number: int, wanted: Any) -> None:
    body = list(yaml.safe_load_all((SEEDS / file).read_text()))[number]
    pod = body["spec"]["podSets"][0]["template"] if body["kind"] == "Workload" else body
    found = [
        (a.cards, a.memory_mib, a.percent, a.cores)
        for c in card_wants(pod).containers
        for a in c.cards
    ]
    assert found == wanted
    assert problem([("main", 1, pod)]) == ""


VALUES = st.one_of(
    st.integers(-3, 10**6), st.text(max_size=5), st.floats(0, 100), st.booleans(), st.none()
)
LIMITS = st.dictionaries(
    st.sampled_from([name for vendor in VENDORS for name, _ in vendor.names()]), VALUES, max_size=4
)


@given(LIMITS, st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=2))
def test_hostile_templates_are_refused_and_never_break(limits: Any, annotations: Any) -> None:
    pod = template({"resources": {"limits": limits}}, annotations=annotations)
    text = problem([("main", 1, pod)])
    try:
        wants = card_wants(pod)
    except WantsError:
        assert text
        return
    assert all(c.memory_mib or c.percent for one in wants.containers for c in one.cards)
    if not text:
        assert card_wants(canonical(pod, VENDORS)).containers == wants.containers
