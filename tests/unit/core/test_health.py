"""How a cluster stands, what follows and when; the brake; which times keep what they promise."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.core.confirming import Confirm, Ordered
from federation.core.failover import DEFAULT, FAST, Timings
from federation.core.health import (
    Brake,
    Create,
    Facts,
    Fence,
    Phase,
    Verdict,
    brake,
    counts,
    identity_note,
    judge,
    settle,
)
from federation.core.lease import Cause, LeaseSeen, Watch, observe

T = DEFAULT
FREE = Brake()
WELL = Facts()
AGENT = LeaseSeen(1, renewed="a", holder="x", lease=T.lease, renew=T.renew, kill=T.kill)
FENCED = replace(AGENT, fenced=True, holder="FENCED", epoch=2, cause="silent", fenced_version=1)


def watch(*leases: tuple[float, LeaseSeen]) -> Watch:
    """A watch that saw these, each in a version of its own."""
    found = Watch()
    for number, (now, lease) in enumerate(leases):
        found = observe(found, replace(lease, version=number + 1), now, T)
    return found


def at(now: float, of: Watch, facts: Facts = WELL, held: Brake = FREE) -> Verdict:
    """How the cluster stands at `now`."""
    return judge("c", settle(of, now, T, held), facts, now, T, held)


RENEWED = replace(AGENT, renewed="b")
BACK = replace(AGENT, epoch=2, renewed="b")
PULSE = (RENEWED, AGENT)
FLAPPED = watch((0, AGENT), (60, RENEWED), (130, AGENT))
GONE = Facts(missing_since=0.0, bound=1, listed=False)


@pytest.mark.parametrize(
    ("now", "of", "facts", "phase"),
    [
        pytest.param(0, watch(), WELL, Phase.UNKNOWN, id="no Lease"),
        pytest.param(0, watch((0, LeaseSeen(1))), WELL, Phase.UNKNOWN, id="nobody renewed it"),
        pytest.param(49, watch((0, AGENT)), WELL, Phase.READY, id="renewed lately"),
        pytest.param(50, watch((0, AGENT)), WELL, Phase.SUSPECT, id="silent for T_s"),
        pytest.param(130, watch((0, AGENT), (121, FENCED)), WELL, Phase.FENCED, id="fenced"),
        pytest.param(180, watch((0, AGENT), (121, FENCED)), WELL, Phase.LOST, id="L_M is over"),
        pytest.param(
            140, watch((0, AGENT), (121, FENCED), (140, BACK)), WELL, Phase.RETURNING, id="back"
        ),
        pytest.param(
            140,
            watch((0, AGENT), (121, FENCED), (140, BACK)),
            Facts(inventory_epoch=2),
            Phase.READY,
            id="back, and all it has is known",
        ),
        pytest.param(
            140,
            watch((0, AGENT), (121, FENCED), (140, BACK)),
            Facts(inventory_epoch=2, listed=False),
            Phase.RETURNING,
            id="reported, but not listed here",
        ),
        pytest.param(60, watch((0, AGENT), (60, RENEWED)), WELL, Phase.READY, id="heard again"),
        pytest.param(130, FLAPPED, WELL, Phase.RECOVERING, id="heard again, twice in short time"),
        pytest.param(
            165,
            watch((0, AGENT), (60, RENEWED), (130, AGENT), (150, RENEWED), (165, AGENT)),
            WELL,
            Phase.READY,
            id="heard for a while",
        ),
        pytest.param(
            330,
            watch(
                (0, AGENT),
                (60, RENEWED),
                *((60 + 30 * n, PULSE[n % 2]) for n in range(1, 7)),
                (330, AGENT),
            ),
            WELL,
            Phase.READY,
            id="heard again, long after the first time",
        ),
        pytest.param(
            170,
            FLAPPED,
            WELL,
            Phase.RECOVERING,
            id="heard once: time alone heals nothing",
        ),
        pytest.param(
            9, watch((0, AGENT)), Facts(unusable="no"), Phase.UNUSABLE, id="not to be worked with"
        ),
        pytest.param(
            60, watch((0, AGENT)), Facts(unusable="no"), Phase.SUSPECT, id="silent counts more"
        ),
        pytest.param(9, watch((0, AGENT)), GONE, Phase.LEAVING, id="its object was deleted"),
    ],
)
def test_phases(now: float, of: Watch, facts: Facts, phase: Phase) -> None:
    """Each has one look at the facts and the time."""
    assert at(now, of, facts).phase is phase


def test_suspect_and_what_follows() -> None:
    """Nothing is written; the fence is due L_W(1+r)/(1-r) after the last renewal, not before."""
    of = watch((7, AGENT))
    suspect, due = at(60, of), at(7 + 120.25, of)

    assert suspect.since == 7
    assert suspect.action is None
    assert suspect.next is not None
    assert suspect.next.at == pytest.approx(7 + 120.24, abs=0.001)
    assert due.action == Fence(2, Cause.SILENT, 1)


def test_what_jobs_hear_of_a_cluster_that_is_lost() -> None:
    """Suspect from T_s on, stopped from L_M on, and well again only when its agent is."""
    of, fenced = watch((0, AGENT)), watch((0, AGENT), (121, FENCED))
    back = watch((0, AGENT), (121, FENCED), (200, BACK))
    well, suspect = at(9, of).standing, at(60, of).standing
    given_up, lost = at(150, fenced).standing, at(181, fenced).standing
    returning = at(200, back).standing
    there = at(200, back, Facts(inventory_epoch=2)).standing

    assert (well.present, well.suspect, well.silent, well.epoch) == (True, False, 0, 1)
    assert (suspect.present, suspect.suspect, suspect.silent) == (False, True, 60)
    assert (given_up.epoch, given_up.fenced_below, given_up.stopped_below) == (2, 2, 1)
    assert (lost.suspect, lost.silent, lost.stopped_below) == (True, 181, 2)
    assert (returning.present, returning.suspect, returning.silent) == (False, False, 0)
    assert (there.present, there.suspect, there.epoch) == (True, False, 2)


def test_what_wrote_to_a_lease_may_have_hidden_a_renewal() -> None:
    """Jobs count from then on, and with the K that the agent was told."""
    touched = replace(AGENT, version=AGENT.version + 1, kill=300.0)
    standing = at(150, watch((0, AGENT), (40, touched))).standing

    assert (standing.suspect, standing.silent, standing.kill) == (True, 110, 300)


def test_a_cluster_that_cannot_be_worked_with_is_not_silent() -> None:
    """An expired kubeconfig moves nothing, however long it lasts."""
    of = watch(*((20.0 * n, replace(AGENT, renewed=str(n))) for n in range(200)))
    verdict = at(20 * 199 + 5, of, Facts(unusable="BadKubeConfig: expired", listed=False))

    assert verdict.action is None
    assert (verdict.standing.suspect, verdict.standing.silent) == (False, 0)
    assert verdict.cause == "BadKubeConfig: expired"


# The Lease is not as it should be


@pytest.mark.parametrize(
    ("of", "facts", "action"),
    [
        pytest.param(watch(), WELL, Create(1, fenced=False), id="a new cluster"),
        pytest.param(watch(), Facts(bound=3), Create(4, fenced=True), id="jobs are bound there"),
        pytest.param(
            watch(), Facts(inventory_epoch=6), Create(7, fenced=True), id="its agent knows more"
        ),
        pytest.param(watch(), Facts(missing_since=0.0), None, id="nothing to watch"),
        pytest.param(watch(), GONE, Create(2, fenced=True), id="jobs there, nothing else"),
        pytest.param(
            watch((0, replace(AGENT, epoch=4)), (1, RENEWED)),
            WELL,
            Fence(5, Cause.EPOCH_LOST, 2),
            id="its epoch was lowered",
        ),
        pytest.param(
            watch((0, AGENT)),
            Facts(bound=3),
            Fence(4, Cause.EPOCH_LOST, 1),
            id="it is below what is bound there",
        ),
    ],
)
def test_an_epoch_never_goes_back(of: Watch, facts: Facts, action: Create | Fence | None) -> None:
    """Whoever deleted or changed the Lease: the next epoch is above all that is known."""
    assert at(5, of, facts).action == action


def test_a_lease_that_no_agent_renews_while_jobs_are_bound() -> None:
    """It was made anew by somebody: their cluster is silent all the same."""
    of = watch((0, LeaseSeen(1)))

    assert at(60, of, Facts(bound=1)).phase is Phase.SUSPECT
    assert at(130, of, Facts(bound=1)).action == Fence(2, Cause.SILENT, 1)


# Another physical cluster has the name


KNOWN = replace(AGENT, identity="x")


@pytest.mark.parametrize(
    ("of", "identity", "action"),
    [
        pytest.param(watch((0, KNOWN)), "x", None, id="the same"),
        pytest.param(watch((0, KNOWN)), "", None, id="it is not known which"),
        pytest.param(watch((0, AGENT)), "y", None, id="none was noted"),
        pytest.param(watch((0, KNOWN)), "y", Fence(2, Cause.REPLACED, 1, "y"), id="another one"),
        pytest.param(
            watch((0, KNOWN), (121, replace(FENCED, identity="x"))), "y", None, id="fenced already"
        ),
    ],
)
def test_a_cluster_of_the_same_name(of: Watch, identity: str, action: Fence | None) -> None:
    """The epoch is ended once, also while the brake holds: that moves no job by itself."""
    assert at(5, of, Facts(identity=identity)).action == action
    assert at(5, of, Facts(identity=identity), Brake("away", 0)).action == action


@pytest.mark.parametrize(
    ("seen", "identity", "noted"),
    [
        pytest.param(AGENT, "x", ("x", 0), id="the first that is known"),
        pytest.param(AGENT, "", ("", 0), id="it is not known which"),
        pytest.param(KNOWN, "y", ("x", 0), id="the fence comes first"),
        pytest.param(
            replace(FENCED, identity="x", epoch=4), "y", ("y", 4), id="nothing is bound in it"
        ),
        pytest.param(replace(KNOWN, own_since=3), "x", ("x", 3), id="the same"),
    ],
)
def test_whose_epoch_it_is(seen: LeaseSeen, identity: str, noted: tuple[str, int]) -> None:
    """What is written on the Lease."""
    assert identity_note(seen, identity) == noted


def test_the_one_before_is_lost() -> None:
    """Its jobs wait as those of a lost cluster do; those bound since are well."""
    fenced = replace(FENCED, cause="replaced", fenced_version=1, identity="y", own_since=2)
    back = replace(BACK, identity="y", own_since=2)
    of = watch((0, KNOWN), (10, fenced), (15, back), (190, replace(back, renewed="c")))
    facts = Facts(inventory_epoch=2, identity="y")
    standing = at(250, of, facts).standing  # it is silent itself by now
    before = standing.of_the_one_before

    assert at(179, of, facts).standing.stopped_below == 1
    assert (standing.suspect, standing.silent, standing.own_since) == (True, 60, 2)
    assert (before.well, before.suspect, before.reachable) == (False, True, False)
    assert (before.silent, before.stopped_below) == (250, 2)


# A cluster is taken out


def test_leaving() -> None:
    """Fenced on purpose after a while; the wait counts from the last renewal."""
    renewals = [(20.0 * n, replace(AGENT, renewed=str(n))) for n in range(4)]
    left = watch(*renewals, (61, replace(FENCED, cause="left", fenced_version=4)))

    assert at(49, watch(*renewals[:3]), GONE).action is None
    assert at(60, watch(*renewals), GONE).action == Fence(2, Cause.LEFT, 4)
    assert at(60, watch(*renewals)).phase is Phase.READY  # it was created again in time
    assert at(239, left, GONE).standing.stopped_below == 1
    assert at(241, left, GONE).standing.stopped_below == 2


def test_an_agent_that_is_back_on_a_cluster_that_left() -> None:
    """It lives, but nobody adopts what it has: its jobs move, and it is not fenced once more."""
    back = watch(
        (0, AGENT),
        (51, replace(FENCED, cause="left")),
        (55, BACK),
        (190, replace(BACK, holder="y")),
    )
    verdict = at(191, back, GONE)

    assert (verdict.phase, verdict.action) == (Phase.LEAVING, None)
    assert verdict.standing.suspect
    assert verdict.standing.stopped_below == 2
    assert verdict.standing.silent == 191, "since the last renewal in the epoch that is over"


# Orders


def test_a_confirmed_fence() -> None:
    """It is put at once, even while the brake holds; all below it counts as dead."""
    held, order = Brake("away", 0), Facts(order=Ordered(2, fresh=True))
    of = watch((0, AGENT))
    fenced = watch((0, AGENT), (61, replace(FENCED, cause="confirmed", confirmed_below=2)))

    assert at(20, of, order).action is None  # its agent lives
    assert at(60, of, order, held).action == Fence(2, Cause.CONFIRMED, 1)
    assert at(60, of, order, held).order is None
    assert at(60, of, Facts(order=Ordered(9, fresh=True)), held).action is None
    assert at(60, of, order).standing.confirmed_below == 0
    assert at(62, fenced, order, held).standing.confirmed_below == 2


def test_an_order_about_epochs_to_come_confirms_nothing() -> None:
    """A number that is too high by mistake would confirm every fence before anybody looked. So
    would one on the Lease, whoever wrote that.
    """
    silent = replace(FENCED, cause="silent")
    verdict = at(126, watch((0, AGENT), (125, silent)), Facts(order=Ordered(999_999_999)))
    assert verdict.order is not None
    assert verdict.order.text is None
    odd = watch((0, AGENT), (125, replace(silent, confirmed_below=999)))
    assert at(126, odd).standing.confirmed_below == 0


def test_a_fence_is_confirmed_on_the_lease() -> None:
    """For the version that was seen: an agent that comes back is not declared dead."""
    fenced = watch((0, AGENT), (125, replace(FENCED, cause="silent")))
    verdict = at(126, fenced, Facts(order=Ordered(2)))
    assert (verdict.action, verdict.order) == (Confirm(2, 2), None)
    assert verdict.standing.confirmed_below == 0


# The brake


@pytest.mark.parametrize(
    ("silent", "members", "held"),
    [
        (0, 0, False),
        (1, 1, False),
        (1, 2, False),
        (2, 2, True),
        (2, 3, False),
        (3, 3, True),
        (2, 4, False),
        (3, 4, True),
        (5, 10, False),
        (6, 10, True),
        (3, 10, False),
    ],
)
def test_how_many_may_be_silent(silent: int, members: int, held: bool) -> None:
    """More than half, three at least; or both of two. One of one or two may be lost."""
    assert bool(brake(FREE, silent, members, "", 9).reason) == held


def test_the_brake_holds_everything() -> None:
    """No fence, no re-run of any kind; the state is shown as it is."""
    held = Brake("3 of 4 clusters are silent at once", 55)
    suspect = at(500, watch((0, AGENT)), held=held)
    fenced = at(500, watch((0, AGENT), (121, FENCED)), held=held)

    assert (suspect.phase, suspect.action) == (Phase.SUSPECT, None)
    assert (suspect.standing.suspect, suspect.standing.silent) == (False, 0)
    assert not suspect.standing.present
    assert (fenced.phase, fenced.standing.stopped_below) == (Phase.FENCED, 1)
    for verdict in (suspect, fenced):
        assert verdict.next is not None
        assert "3 of 4" in verdict.next.what
        assert verdict.next.at == math.inf


def test_what_was_lost_before_the_brake_goes_on() -> None:
    """That was decided: its jobs are stopped for certain, and are on their way elsewhere."""
    of = settle(watch((0, AGENT), (121, FENCED)), 181, T, FREE)
    lost = at(190, of, held=Brake("3 of 4 clusters are silent at once", 185))

    assert lost.phase is Phase.LOST
    assert (lost.standing.suspect, lost.standing.silent) == (True, 190)


def test_after_the_brake_was_let_go() -> None:
    """Clusters that come back get the time for it."""
    of, released = watch((0, AGENT)), brake(Brake("away", 55), 1, 4, "", 300)

    assert released == Brake("", 300)
    assert at(349, of, held=released).action is None
    assert not at(349, of, held=released).standing.suspect
    assert at(350, of, held=released).action == Fence(2, Cause.SILENT, 1)


def test_the_brake_says_since_when() -> None:
    """New numbers are no new brake."""
    first = brake(FREE, 2, 2, "", 60)

    assert brake(first, 3, 4, "", 70) == Brake("3 of 4 clusters are silent at once", 60)
    assert brake(first, 0, 4, "the canary fails", 70).since == 60


def test_the_brake_is_not_let_go_at_once() -> None:
    """Only after a while without a reason; what follows counts from when that began."""
    held = brake(FREE, 3, 4, "", 60, 10)
    calm = brake(held, 1, 4, "", 70, 10)
    again = brake(calm, 1, 4, "the canary fails", 75, 10)
    late = brake(brake(again, 1, 4, "", 80, 10), 1, 4, "", 89, 10)

    assert (calm.reason, calm.since, calm.calm_since) == (held.reason, 60, 70)
    assert again == Brake("the canary fails", 60)
    assert (late.reason, late.calm_since) == ("the canary fails", 80)
    assert brake(late, 1, 4, "", 90, 10) == Brake("", 80)
    assert brake(late, 1, 4, "", 90, 10).free_at(T) == 80 + T.suspect


@pytest.mark.parametrize(
    ("of", "facts", "counted"),
    [
        (watch((0, AGENT)), WELL, (1, 1)),
        (watch((0, AGENT), (50, RENEWED)), WELL, (0, 1)),
        (watch((0, AGENT), (50, RENEWED)), GONE, (1, 1)),
        (watch((0, AGENT), (50, RENEWED)), Facts(missing_since=0.0), (0, 0)),
        (watch((0, AGENT), (51, FENCED)), WELL, (0, 0)),
        (watch(), WELL, (0, 0)),
        (watch((0, LeaseSeen(1))), WELL, (0, 0)),
    ],
    ids=["silent", "well", "leaving", "left", "fenced", "no Lease", "no agent"],
)
def test_who_counts(of: Watch, facts: Facts, counted: tuple[int, int]) -> None:
    """Clusters that were given up have been dealt with; those that nobody uses do not matter."""
    assert counts(of, facts, 60, T) == counted


def test_half_of_the_clusters_is_fenced_one_after_the_other() -> None:
    """While they are, the others never look like most: those that are fenced leave the sum."""
    for members in range(2, 21):
        for silent in range(1, members // 2 + 1):
            for fenced in range(silent if members > 2 else 1):
                assert not brake(FREE, silent - fenced, members - fenced, "", 0).reason


# Times


@pytest.mark.parametrize("timings", [DEFAULT, FAST], ids=["default", "fast"])
def test_the_profiles_keep_what_they_promise(timings: Timings) -> None:
    assert timings.problem() == ""


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"rerun": 166.0}, ["166 s", "(120 + 1 + 45) * 1.0020 = 166.3 s"]),
        ({"kill": 90.0}, ["180 s", "(120 + 1 + 90)"]),
        ({"renew": 50.0}, ["50 s (T_s)", "every 50 s (R)"]),
        ({"lease": 60.0}, ["lease (L_W) of 60 s", "50 + 20 s"]),
        ({"lease": 100.5}, ["100.5 s", "whole seconds"]),
        ({"lease": 100_000.0, "rerun": 1e6}, ["100000 s", "up to a day"]),
        ({"renew": 0.0}, ["above 0"]),
        ({"rate": 0.5}, ["0.5"]),
    ],
)
def test_times_that_keep_no_promise(changed: dict[str, float], said: list[str]) -> None:
    """They are refused, with the numbers."""
    problem = replace(DEFAULT, **changed).problem()

    assert [text for text in said if text not in problem] == []


@given(
    lease=st.integers(1, 1000),
    kill=st.floats(1, 300),
    rerun=st.floats(1, 2000),
    rate=st.floats(0, 0.05),
)
def test_what_is_not_refused_keeps_the_inequality(
    lease: int, kill: float, rerun: float, rate: float
) -> None:
    """Worked out anew: worker and manager count at rates that differ as much as they may."""
    timings = Timings(1, 2, lease, kill, rerun, rate=rate)
    worker_s = (lease + timings.tick + kill) / (1 - rate)
    manager_s = rerun / (1 + rate)

    assert timings.problem() or manager_s >= worker_s * (1 - 1e-9)
