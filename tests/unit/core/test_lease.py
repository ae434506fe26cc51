"""Counting a Lease on one's own clock: what a renewal is, when a fence comes, when all is gone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from federation.core.failover import DEFAULT, FAST, Timings
from federation.core.health import Facts
from federation.core.lease import Cause, LeaseSeen, Watch, observe, unsettled, vanished
from tests.unit.core.lease_model import Agent, Clock, Manager, Server

T = DEFAULT
HELD = LeaseSeen(1, renewed="a", holder="x", lease=T.lease, renew=T.renew, kill=T.kill)


def seen(*leases: tuple[float, LeaseSeen], timings: Timings = T, own: bool = False) -> Watch:
    """A watch that saw these, each at its time; the last one `own`."""
    watch = Watch()
    for number, (now, lease) in enumerate(leases):
        last = number == len(leases) - 1
        watch = observe(watch, replace(lease, version=number + 1), now, timings, own=own and last)
    return watch


def fenced(cause: Cause = Cause.SILENT, epoch: int = 2, over: int = 1) -> LeaseSeen:
    return replace(
        HELD, fenced=True, holder="FENCED", epoch=epoch, cause=cause.value, fenced_version=over
    )


def test_a_renewal_counts_from_when_it_was_seen() -> None:
    """Whatever time was written into it."""
    watch = seen((0, HELD), (33, replace(HELD, renewed="1970")))

    assert (watch.renewed_at, watch.counted_from, watch.silent(40)) == (33, 33, 7)


def test_a_write_that_is_no_renewal() -> None:
    """It puts the fence off, as it may have hidden a renewal; it is no sign of life."""
    watch = seen((0, HELD), (33, HELD))

    assert (watch.renewed_at, watch.counted_from) == (0, 33)


def test_a_lease_that_was_taken_from_its_agent_by_hand() -> None:
    """That may have hidden a renewal as well: a fence is put as late as after one."""
    taken = replace(HELD, renewed="", holder="")
    watch = seen((0, HELD), (119, taken), (120, fenced(over=2)))

    assert seen((0, HELD), (119, taken)).counted_from == 119
    assert watch.gone_at == pytest.approx(119 + 180, abs=0.001)


def test_our_own_write_changes_neither() -> None:
    """It replaced the version that was known."""
    watch = seen((0, HELD), (33, replace(HELD, lease=30)), own=True)

    assert (watch.renewed_at, watch.counted_from, watch.seen and watch.seen.version) == (0, 0, 2)


def test_an_older_version_is_passed_over() -> None:
    """A watch lags behind the answer to a write."""
    watch = seen((0, HELD), (10, fenced()))

    assert observe(watch, replace(HELD, version=1, renewed="b"), 11, T) is watch


@pytest.mark.parametrize(
    ("leases", "gone_at"),
    [
        pytest.param([(7, HELD), (130, fenced())], 7 + 180, id="counted from the renewal it ended"),
        pytest.param([(130, fenced())], 130 + 180 - 120.24, id="first listing: it had waited"),
        pytest.param([(130, fenced(Cause.LEFT))], 130 + 180, id="first listing: it had not waited"),
        pytest.param(
            [(0, HELD), (130, fenced(over=99))], 130 + 180 - 120.24, id="missed renewals: waited"
        ),
        pytest.param(
            [(0, HELD), (130, fenced(Cause.LEFT, over=99))], 130 + 180, id="missed, not waited"
        ),
        pytest.param([(5, HELD), (9, fenced(Cause.LEFT))], 5 + 180, id="a live agent was fenced"),
        pytest.param(
            [(0, HELD), (50, replace(HELD, epoch=2))], 50 + 180, id="the fence was never seen"
        ),
        pytest.param([(4, replace(HELD, epoch=3))], 4 + 180, id="first listing in a later epoch"),
        pytest.param(
            [(0, HELD), (121, fenced()), (140, replace(HELD, epoch=2, renewed="b"))],
            180,
            id="the agent is back before",
        ),
    ],
)
def test_when_all_of_the_epochs_below_is_gone(
    leases: list[tuple[float, LeaseSeen]], gone_at: float
) -> None:
    """L_M after the last renewal that may have been, never sooner."""
    assert seen(*leases).gone_at == pytest.approx(gone_at, abs=0.001)


def test_nothing_is_below_the_first_epoch() -> None:
    """So nothing has to be waited for."""
    assert seen((0, HELD)).stopped_below == 1


def test_the_longer_lease_counts_until_a_renewal_under_the_new_one() -> None:
    """The settings were shortened: the agent may still go by what it has."""
    old = seen((0, HELD))
    lowered = observe(old, replace(HELD, version=2, lease=30, lowered_from=120), 1, FAST, own=True)
    renewed = observe(
        lowered, replace(HELD, version=3, lease=30, renewed="b", lowered_from=120), 20, FAST
    )

    assert old.fence_s(FAST) == pytest.approx(120.24, abs=0.01)
    assert lowered.fence_s(FAST) == pytest.approx(120.24, abs=0.01)
    assert lowered.gone_s(FAST) == pytest.approx(166.3, abs=0.1)
    assert (renewed.fence_s(FAST), renewed.gone_s(FAST)) == (FAST.lease * FAST.skew, FAST.rerun)


def test_a_lease_that_was_shortened_just_before_a_restart() -> None:
    """The Lease itself tells the next manager what the last renewal may have been under."""
    watch = seen((0, replace(HELD, lease=30, lowered_from=120)), timings=FAST)

    assert watch.fence_s(FAST) == pytest.approx(120.24, abs=0.01)


def test_a_renewal_and_a_shorter_lease_come_at_once() -> None:
    """A watch that skips may show both in one: the renewal may have been the one before."""
    skipped = seen((0, HELD), (20, replace(HELD, lease=30, renewed="b", lowered_from=120)))
    stuck = seen((0, replace(HELD, lease=30)), (20, HELD))

    assert (skipped.lease, stuck.lease) == (120, 120)


def test_an_agent_that_still_renews_at_the_longer_period_is_not_suspect() -> None:
    """Until it has seen the new settings."""
    watch = seen((0, HELD), timings=FAST)

    assert watch.suspect_s(FAST) == FAST.suspect * 4
    assert (
        observe(
            watch, replace(HELD, version=2, renewed="b", lease=30, renew=5), 20, FAST
        ).suspect_s(FAST)
        == FAST.suspect
    )


def test_a_longer_kill_time_is_kept() -> None:
    """What runs may have been admitted under it."""
    assert seen((0, replace(HELD, kill=100))).gone_s(T) == pytest.approx(221.4, abs=0.1)


@pytest.mark.parametrize(
    ("gap", "well_since"), [(49, float("-inf")), (50, 50)], ids=["short", "suspect"]
)
def test_trouble_begins_with_a_gap(gap: float, well_since: float) -> None:
    """Who was suspect has to prove itself again."""
    assert seen((0, HELD), (gap, replace(HELD, renewed="b"))).well_since == well_since


def test_a_lease_that_may_have_ended() -> None:
    """A period before L_W is over, as the way here takes time; and for a while after it, as what
    that did has yet to be heard of. A shorter silence is nothing.
    """
    silent = seen((0, HELD))
    assert [silent.lapsed(now, T) for now in (99, 100, 300)] == [False, True, True]
    back = replace(HELD, renewed="b")
    assert not seen((0, HELD), (99, back)).lately(T)
    late = [(0.0, HELD), (130.0, back)]
    assert seen(*late).lately(T)
    assert seen(*late, (174.0, replace(HELD, renewed="c"))).lately(T), "K is not over"
    assert not seen(*late, (175.0, replace(HELD, renewed="c"))).lately(T)
    assert not seen((0, LeaseSeen(1))).lapsed(500, T), "nobody ever held it"


def renewal(mark: str, known: str | None, breaks: int = 1) -> LeaseSeen:
    """A renewal of an agent that tells of which one it has the answer."""
    return replace(HELD, renewed=mark, known=known, breaks=breaks)


def test_the_lease_ends_by_the_last_renewal_that_its_agent_knows_of() -> None:
    """The answers to the others were lost: they extended nothing, though they were seen."""
    known = seen((0, renewal("a", "")), (20, renewal("b", "a")), (40, renewal("c", "b")))
    assert [known.lapsed(now, T) for now in (109, 110)] == [False, True]
    lost = seen((0, renewal("a", "")), (20, renewal("b", "a")), (40, renewal("c", "a")))
    assert [lost.lapsed(now, T) for now in (89, 90)] == [False, True]
    assert lost.silent(90) == 50, "a fence counts from what was seen"
    again = observe(lost, replace(renewal("d", "c"), version=9), 60, T)
    assert [again.lapsed(now, T) for now in (129, 130)] == [False, True]


def test_a_lease_that_was_broken() -> None:
    """By the number of its agent, not by how long it was silent: that may have been cut off, or the
    manager have been away.
    """
    first = [(0.0, renewal("a", "")), (20.0, renewal("b", "a"))]
    assert seen(*first, (25.0, renewal("c", "", 2))).lately(T)
    assert not seen(*first, (115.0, renewal("c", "b"))).lately(T)
    assert seen(*first, (115.0, renewal("c", "b"))).lapsed(115, T), "until it knows of that one"
    upgraded = seen((0, HELD), (20, renewal("b", "")))
    assert not upgraded.lately(T), "an agent that did not tell went before"


def test_an_agent_that_tells_no_more() -> None:
    """An older one took its place: what is seen counts."""
    watch = seen((0, renewal("a", "")), (20, renewal("b", "a")), (40, replace(HELD, renewed="c")))
    assert [watch.lapsed(now, T) for now in (139, 140)] == [False, True]


def test_a_manager_knows_how_old_a_renewal_is_if_it_saw_it_come() -> None:
    """The agent has to know of one that did: what was sent long ago may arrive at any time."""
    steps = [(0.0, renewal("x", "w")), (20.0, renewal("y", "x")), (40.0, renewal("z", "y"))]
    assert [seen(*steps[:n]).unheard for n in (1, 2, 3)] == [True, True, False]
    missed = seen(*steps, (80.0, renewal("m", "l")))
    assert missed.unheard, "one that was missed is older, but who knows by how much"
    assert [missed.lapsed(now, T) for now in (169, 170)] == [False, True]


def test_what_a_blind_manager_sees_may_be_old() -> None:
    """A watch that was behind brings it at once."""
    watch = seen((0, renewal("a", "")), (20, renewal("b", "a")), (40, renewal("c", "b")))
    late = observe(watch, replace(renewal("d", "c"), version=4), 100, T, blind=True)
    assert not late.unheard, "that one was seen in time"
    later = observe(late, replace(renewal("e", "d"), version=5), 120, T)
    assert later.unheard
    assert not observe(later, replace(renewal("f", "e"), version=6), 140, T).unheard


def test_a_lease_that_ends_sooner_than_is_configured() -> None:
    """What its agent goes by counts, but not before it is suspect."""
    short = seen((0, replace(HELD, lease=90.0)))
    assert [short.lapsed(now, T) for now in (69, 70)] == [False, True]
    assert not seen((0, replace(HELD, lease=30.0))).lapsed(49, T)


def test_the_first_reading_proves_nothing() -> None:
    """It may be of any age; a renewal that is seen to come is of now."""
    assert seen((0, HELD)).unheard
    assert seen((0, HELD), (5, HELD)).unheard
    assert not seen((0, HELD), (5, replace(HELD, renewed="b"))).unheard
    assert not seen((0, fenced())).unheard
    assert not seen((0, LeaseSeen(1))).unheard


def test_trouble_is_remembered_over_a_restart() -> None:
    """By what the last manager showed."""
    assert unsettled(seen((5, HELD))).well_since == 5


def test_a_lease_that_was_deleted() -> None:
    """The agent may have renewed it until that was seen; the epoch is not forgotten."""
    watch = vanished(seen((0, replace(HELD, epoch=4))), 70)
    again = observe(watch, replace(fenced(Cause.EPOCH_LOST, 5), version=9), 71, T, own=True)

    assert (watch.highest, watch.counted_from) == (4, 70)
    assert again.gone_at == pytest.approx(71 + 180, abs=0.001)


def test_an_epoch_that_cannot_be_read_is_the_one_that_is_known() -> None:
    """The agent may write nonsense there."""
    watch = seen((0, replace(HELD, epoch=4)), (1, replace(HELD, epoch=0, renewed="b")))

    assert watch.seen is not None
    assert watch.seen.epoch == 4


# What has to hold whatever happens

_OFTEN = ["renew", "renew", "due", "due", "due", "tick", "tick", "deliver", "pass"]
_SELDOM = ["send", "arrive", "answer", "lose", "relist", "restart", "faster", "slower", "swap"]
_RARE = ["delete", "left", "stay", "tick-lost"]
_STEPS = st.tuples(
    st.sampled_from(_OFTEN * 3 + _SELDOM * 2 + _RARE),
    st.sampled_from([0, 1, 2, 9]),
    st.sampled_from([0.0, 0.5, 5.0, 20.0, 31.0, 61.0]),
)
SLOW = replace(DEFAULT, rerun=DEFAULT.bound())
QUICK = replace(FAST, rerun=FAST.bound())


class Play:
    """A schedule of what happens, carried out; `check` after each step."""

    def __init__(self, manager: Clock, agent: Clock, timings: Timings) -> None:
        self.true = 0.0
        self.server = Server()
        self.agent = Agent(agent, timings.tick)
        self.manager = Manager(manager, timings)
        self.other = Manager(manager, timings)
        """One that does not lead, or does not know that it does not."""
        self.facts = Facts()
        self.fences: list[tuple[int, Cause]] = []
        self.tick(lost=False)

    def tick(self, *, lost: bool) -> None:
        epoch = self.manager.watch.highest
        self.facts = replace(self.facts, bound=max(self.agent.deadlines, default=0))
        fence = self.manager.tick(self.server, self.true, self.facts, lost=lost)
        if fence is not None:
            self.fences.append((epoch, fence.cause))
            if fence.cause is Cause.SILENT:
                assert self.agent.lapsed(epoch, self.true), "fenced while the lease held"

    def renew(self) -> None:
        self.agent.send(self.server, self.true)
        self.agent.arrive(self.server)
        self.agent.answer(lost=False)

    def restart(self, timings: Timings) -> None:
        self.manager = Manager(self.manager.clock, timings)
        self.manager.list(self.server, self.true)

    def due(self) -> None:
        """Time passes until the manager may fence, or believe that all is gone, and no longer."""
        manager = self.manager
        watch, now = manager.watch, manager.clock.read(self.true)
        times = [watch.counted_from + watch.fence_s(manager.timings), watch.gone_at]
        left = [at - now for at in times if now < at < now + 1000]
        self.true += min(left, default=0.0) / manager.clock.rate + 1e-6
        self.tick(lost=False)

    def step(self, what: str, count: int, seconds: float) -> None:
        server, agent = self.server, self.agent
        match what:
            case "pass":
                self.true += seconds
            case "due":
                self.due()
            case "send":
                agent.send(server, self.true)
            case "arrive":
                agent.arrive(server)
            case "answer" | "lose":
                agent.answer(lost=what == "lose")
            case "renew":
                self.renew()
                self.manager.deliver(server, self.true, count)
            case "delete":
                server.delete()
            case "relist":
                self.manager.list(server, self.true)
            case "deliver":
                self.manager.deliver(server, self.true, count)
            case "tick" | "tick-lost":
                self.tick(lost=what == "tick-lost")
            case "left" | "stay":
                since = self.manager.clock.read(self.true) - 1000
                self.facts = replace(self.facts, missing_since=since if what == "left" else None)
            case "swap":
                self.manager, self.other = self.other, self.manager
            case "restart" | "faster" | "slower":
                other = {"faster": QUICK, "slower": SLOW}
                self.restart(other.get(what, self.manager.timings))

    def check(self) -> None:
        below = max(m.watch.stopped_below for m in (self.manager, self.other))
        for epoch in self.agent.deadlines:
            if epoch < below:
                assert self.agent.over(epoch, self.true), f"epoch {epoch} is not over"


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    steps=st.lists(_STEPS, min_size=4, max_size=40),
    rates=st.tuples(*[st.sampled_from([-1e-3, 0.0, 1e-3])] * 2),
    start=st.floats(0, 1e6),
    timings=st.sampled_from([SLOW, QUICK]),
    stuck=st.booleans(),
)
def test_stopped_is_never_said_too_early(
    steps: list[tuple[str, int, float]],
    rates: tuple[float, float],
    start: float,
    timings: Timings,
    stuck: bool,
) -> None:
    """Whatever is late, lost, missed, restarted or deleted, whatever the clocks show, with two
    managers, and with a re-run time that is the bound itself: what ran in an epoch has ended.
    """
    play = Play(Clock(start, 1 + rates[0]), Clock(7.0, 1 + rates[1]), timings)
    play.agent.stuck = stuck
    play.manager.list(play.server, play.true)
    for step in steps:
        play.step(*step)
        play.check()


@pytest.mark.parametrize("rates", [(1e-3, -1e-3), (-1e-3, 1e-3), (0.0, 0.0)])
@pytest.mark.parametrize("timings", [SLOW, QUICK], ids=["default", "fast"])
def test_a_cut_is_found_out_in_time(rates: tuple[float, float], timings: Timings) -> None:
    """The agent is cut off after a renewal: fenced at L_W, stopped by L_M, to the second."""
    play = Play(Clock(0, 1 + rates[0]), Clock(0, 1 + rates[1]), timings)
    play.manager.list(play.server, play.true)
    play.renew()
    play.manager.deliver(play.server, play.true, 9)
    fenced_at = stopped_at = 0.0
    while not stopped_at:
        play.true += 1.0
        play.tick(lost=False)
        play.check()
        fenced_at = fenced_at or (play.true if play.fences else 0.0)
        stopped_at = play.true if play.manager.watch.stopped_below == 2 else 0.0

    assert timings.lease <= fenced_at <= timings.lease * timings.skew * 1.002 + 1
    assert stopped_at <= timings.rerun * 1.002 + 1
    assert play.fences == [(1, Cause.SILENT)]


def test_a_frozen_watch_fences_nobody() -> None:
    """The write loses against the renewals that were not seen."""
    play = Play(Clock(), Clock(), T)
    play.manager.list(play.server, play.true)
    for _ in range(40):
        play.true += 10
        play.renew()
        play.tick(lost=False)
        play.check()

    assert play.fences == []


def test_an_answer_that_is_lost_is_known_by_what_it_wrote() -> None:
    """The fence took place, nobody said so: the watch brings it, and the wait counts from the last
    renewal all the same.
    """
    play = Play(Clock(), Clock(), T)
    play.manager.list(play.server, play.true)
    play.renew()
    play.manager.deliver(play.server, play.true, 9)
    play.true = 121
    play.tick(lost=True)
    assert play.fences
    play.manager.deliver(play.server, play.true, 9)

    assert play.manager.watch.gone_at == pytest.approx(180)
