"""What a LocalQueue used, in its status: written, read again, and what cannot be read."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.api.convert import to_local_queue
from federation.api.local_usage import MOST, write_usage
from federation.api.names import KUEUE_API, KUEUE_GROUP
from federation.core.fair_usage import UsageState

T0 = 1_800_000_000.0


def queue(fair=None, api=KUEUE_API):
    """A LocalQueue with this `status.fairSharing`."""
    meta = {"name": "lq", "namespace": "team"}
    spec = {"clusterQueue": "cq"}
    status = {} if fair is None else {"fairSharing": fair}
    return {
        "apiVersion": api,
        "kind": "LocalQueue",
        "metadata": meta,
        "spec": spec,
        "status": status,
    }


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_what_kueue_wrote_is_read(version):
    amounts = {"cpu": "31999m", "memory": "2Gi", "gpu": "500m"}
    used = {"consumedResources": amounts, "lastUpdate": "2027-01-15T08:00:00Z"}
    fair = {"weightedShare": 0, "admissionFairSharingStatus": used}
    read = to_local_queue(queue(fair, f"{KUEUE_GROUP}/{version}")).used
    assert read == UsageState({"cpu": 31999.0, "memory": 2.0 * 1024**3, "gpu": 0.5}, T0)


@pytest.mark.parametrize(
    "fair",
    [
        None,
        {"weightedShare": 3},
        {"admissionFairSharingStatus": {"consumedResources": {"cpu": "1"}}},
        {"admissionFairSharingStatus": {"lastUpdate": "yesterday"}},
    ],
)
def test_without_use_and_its_time_there_is_nothing_to_go_on_from(fair):
    assert to_local_queue(queue(fair)).used is None


def test_use_in_the_status_is_no_change_of_the_queue():
    fair = {"admissionFairSharingStatus": {"lastUpdate": "2027-01-15T08:00:00Z"}}
    assert to_local_queue(queue(fair)) == to_local_queue(queue())


def test_what_is_written():
    state = UsageState({"gpu": 0.25, "cpu": 1500.4, "memory": 3.5 * 1024**3}, T0 + 0.9)
    assert write_usage(state, 7.2) == {
        "weightedShare": 8,
        "admissionFairSharingStatus": {
            "consumedResources": {"cpu": "1500m", "gpu": "250m", "memory": "3584Mi"},
            "lastUpdate": "2027-01-15T08:00:00Z",
        },
    }
    assert write_usage(UsageState({}, None), 0.0) is None


@pytest.mark.parametrize(
    ("weighted", "share"), [(0.0, 0), (1e-9, 1), (4.0, 4), (math.inf, MOST), (1e30, MOST)]
)
def test_the_share_is_a_whole_number(weighted, share):
    written = write_usage(UsageState({}, T0), weighted)
    assert written is not None
    assert written["weightedShare"] == share


_AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "gpu", "memory"]), st.floats(0, 1e15))


@given(_AMOUNTS)
def test_what_is_written_is_read_again(amounts):
    """To a thousandth part; small amounts of what is not cpu to a thousandth of one."""
    fair = write_usage(UsageState(amounts, T0), 0.0)
    read = to_local_queue(queue(fair)).used
    assert read is not None
    assert read.sampled_at == T0
    assert read.consumed == pytest.approx(amounts, rel=1e-3, abs=1.0)
    gpus = amounts.get("gpu", 0.0)
    assert read.consumed.get("gpu", 0.0) == pytest.approx(gpus, rel=1e-3, abs=1e-3)
