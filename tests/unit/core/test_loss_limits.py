"""The limit of `keep`: a job of a lost cluster runs elsewhere only after it has ended there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from federation.core.facts import Binding
from federation.core.failover import FAST, OnDisconnect, Standing
from federation.core.holding import Lease, Terms
from federation.core.loss import may_rerun


@pytest.mark.parametrize("after", [0.0, 10.0, 30.0, 300.0])
def test_the_manager_waits_for_what_the_worker_lets_run(after: float) -> None:
    """Also where the limit is shorter than the lease, during which the worker does not stop it."""
    lease = Lease().renewal(0.0, 1, Terms(FAST.renew, FAST.lease, FAST.kill))
    stops = lease.limit(OnDisconnect.KEEP, after, 1)
    gone = stops + FAST.tick + FAST.kill
    bound = Binding("w", 1, 1, 0.0, policy=OnDisconnect.KEEP, rerun_after=after)

    def reruns(silent: float) -> bool:
        stopped = 2 if silent >= FAST.bound() else 0  # no manager says so earlier
        standing = Standing("w", 2, suspect=True, silent=silent, stopped_below=stopped)
        return may_rerun(bound, standing, FAST)

    assert not reruns(gone)
    assert reruns(gone * FAST.skew + 0.001)


def test_it_waits_for_as_long_as_the_worker_was_told_to_give_pods_to_end() -> None:
    """Also when K was lowered since."""
    bound = Binding("w", 1, 1, 0.0, policy=OnDisconnect.KEEP, rerun_after=300)
    away = Standing("w", 2, suspect=True, stopped_below=2, kill=300.0)

    def reruns(silent: float) -> bool:
        return may_rerun(bound, replace(away, silent=silent), FAST)

    assert not reruns(300 + FAST.tick + 300)
    assert reruns((300 + FAST.tick + 300) * FAST.skew)
