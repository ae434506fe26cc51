"""The ledger: what is counted from the decision to the end of a pod, whatever happens between."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from federation.core.devices.cards import Amount, Card, Grant, MigProfile, Slice
from federation.core.devices.ledger.claims import Claimed
from federation.core.devices.ledger.holding import Holding, Replica, Reservation, State
from federation.core.devices.ledger.ledger import Ledger
from federation.core.devices.ledger.spaces import Limit
from federation.core.devices.wants import PodWants
from tests.unit.core.devices.pods_and_cards import (
    APP,
    INIT,
    NVIDIA,
    SIDECAR,
    card,
    host,
    mib,
    on,
    reservation,
    seen,
    used,
    wants,
)

SMALL = wants((APP, 10240))
HALF = wants((APP, 20000))
WHOLE = wants((APP, 40960), cores=100)
NOTHING = Amount()


def ledger(*cards: Card) -> Ledger:
    """With one node."""
    made = Ledger()
    made.set_host(host(*(cards or (card(),))))
    return made


# To ask and to commit is one step


@pytest.mark.parametrize("asked", [1, 2, 50])
def test_one_free_card_is_given_once(asked: int) -> None:
    """However many ask at the same moment (x00 to x02); nobody sees more used than there is."""
    books = ledger()
    answers = []
    for number in range(asked):
        answers.append(books.reserve(reservation(f"p{number}", WHOLE)))
        assert used(books) == (1, 40960, 100)

    assert answers.count("") == 1
    assert all("a" in answer for answer in answers[1:])


def test_the_same_pod_is_charged_once() -> None:
    """Decided twice (d23)."""
    books = ledger()

    assert books.reserve(reservation("p", HALF)) == ""
    assert books.reserve(reservation("p", HALF)) == ""
    assert books.reserve(reservation("q", wants((APP, 20960)))) == ""
    assert used(books) == (2, 40960, 0)


def test_a_pod_decided_anew_moves() -> None:
    """And what it had is free for it, too."""
    books = ledger(card("a"), card("b"))
    books.reserve(reservation("p", WHOLE))

    assert books.reserve(reservation("p", WHOLE, "b")) == ""
    assert (used(books, "a"), used(books, "b")) == (NOTHING, (1, 40960, 100))
    books.reserve(reservation("q", HALF))
    assert books.reserve(reservation("p", WHOLE, "a")) != ""
    assert used(books, "b") == (1, 40960, 100)


def test_a_gang_is_reserved_whole_or_not() -> None:
    """The seats before the one that does not fit are given back."""
    books = ledger(card("a"), card("b"))
    books.reserve(reservation("other", HALF, "b"))
    gang = [reservation(Replica("j", i), WHOLE, uuid) for i, uuid in enumerate("ab")]

    assert "b" in books.reserve(*gang)
    assert used(books, "a") == NOTHING
    assert books.totals("ns") == {NVIDIA: (1, 20000, 0)}


def test_a_gang_that_is_decided_anew_keeps_what_it_had_if_it_does_not_fit() -> None:
    """Also the seats that had been moved by then."""
    books = ledger(card("a"), card("b"), card("c"))
    books.reserve(*[reservation(Replica("j", i), WHOLE, uuid) for i, uuid in enumerate("ab")])
    books.reserve(reservation("other", HALF, "a"), reservation("other", HALF, "c"))

    again = [reservation(Replica("j", i), WHOLE, uuid) for i, uuid in enumerate("cc")]
    assert books.reserve(*again) != ""
    assert [used(books, uuid).cores for uuid in "abc"] == [100, 100, 0]


def test_a_host_that_is_not_there_takes_nothing() -> None:
    """Nor one that is gone; what was there is not forgotten."""
    books = ledger()
    books.reserve(reservation("p", HALF))
    books.drop_host("n")

    assert "not registered" in books.reserve(reservation("q", HALF))
    assert books.use("n") is None
    books.set_host(host(card()))
    assert mib(books) == 20000


# Charges


def test_two_apps_after_an_init_container_without_cards_add_up() -> None:
    """d01."""
    books = ledger()
    books.reserve(reservation("p", wants((INIT, 0), (APP, 16384), (APP, 16384))))

    assert used(books) == (2, 32768, 0)
    assert books.reserve(reservation("q", wants((APP, 24576)))) != ""


def test_the_app_is_charged_after_an_init_container_without_cards() -> None:
    """d02."""
    books, pod = ledger(), wants((INIT, 0), (APP, 16384))
    books.reserve(reservation("p", pod))
    books.observe(seen("p", pod, node="n", init_done=True))

    assert used(books) == (1, 16384, 0)
    assert books.reserve(reservation("q", wants((APP, 40960)))) != ""


def test_a_sidecar_adds_to_the_app() -> None:
    """d17."""
    books = ledger()
    books.reserve(reservation("p", wants((SIDECAR, 10240), (APP, 10240))))

    assert used(books) == (2, 20480, 0)
    assert books.reserve(reservation("q", wants((APP, 30720)))) != ""


def test_init_containers_are_a_peak_that_ends() -> None:
    """20 then 10 GiB, and the difference is free at once."""
    books, pod = ledger(card("a", 24576)), wants((INIT, 20480), (APP, 10240))
    books.reserve(reservation("p", pod))
    other = reservation("q", wants((APP, 14336)))

    assert books.reserve(other) != ""
    books.observe(seen("p", pod, node="n", init_done=True))
    assert mib(books) == 10240
    assert books.reserve(other) == ""
    assert mib(books) == 24576


def test_a_pod_that_holds_nothing_after_its_init_containers() -> None:
    """It outlives the last pod of its namespace that holds something."""
    books, pod = ledger(), wants((INIT, 10), (APP, 0))
    books.reserve(reservation("p", pod), reservation("q", SMALL))
    books.observe(seen("p", pod, node="n", init_done=True))
    assert used(books) == (1, 10240, 0)
    books.release("q")
    assert books.totals("ns") == {}
    books.release("p")
    assert used(books) == NOTHING


def test_a_card_that_one_asked_for_alone_stays_closed() -> None:
    """Until that one ends (d10)."""
    books = ledger()
    books.reserve(reservation("p", wants((APP, 4000), mutex=True)))

    assert books.reserve(reservation("q", wants((APP, 4000)))) != ""
    books.release("p")
    assert books.reserve(reservation("q", wants((APP, 4000)))) == ""


# Giving back


def test_a_failed_bind_gives_all_back() -> None:
    """And the pod may be decided anew (d22)."""
    books = ledger()
    books.reserve(reservation("p", HALF))
    books.reserve(reservation("q", HALF))
    books.cancel("q")

    assert mib(books) == 20000
    assert books.reserve(reservation("r", HALF)) == ""
    assert books.reserve(reservation("q", HALF)) != ""


def test_a_pod_is_released_by_its_uid() -> None:
    """Whatever the event carries, once or twice; and it does not come back."""
    books = ledger()
    books.observe(seen("p", HALF, version=5, node="n"))
    books.release("p")
    books.release("p")
    books.observe(seen("p", HALF, version=4, node="n"))
    books.observe(seen("p", HALF, version=9, node="n"))

    assert used(books) == NOTHING
    assert books.totals("ns") == {}
    assert "ended" in books.reserve(reservation("p", HALF))


def test_what_waits_for_ever_is_given_back() -> None:
    """At its deadline, not before; what is bound has none."""
    books = ledger()
    books.reserve(reservation("p", HALF, deadline=100), reservation("q", SMALL, deadline=50))
    books.observe(seen("q", SMALL, node="n"))

    assert books.expire(99) == ()
    assert [held.owner for held in books.expire(100)] == ["p"]
    assert mib(books) == 10240
    assert books.expire(1e9) == ()


def test_a_deadline_can_be_put_off() -> None:
    """By deciding the same again."""
    books = ledger()
    books.reserve(reservation("p", HALF, deadline=100))
    books.reserve(reservation("p", HALF, deadline=200))

    assert books.expire(150) == ()
    assert [held.owner for held in books.expire(200)] == ["p"]


def test_states() -> None:
    """Reserved, bound, running, and no way back."""
    books = ledger()
    books.reserve(reservation("p", HALF))
    states = [books.holding("p").state]
    for version, started in ((1, False), (2, True), (1, False)):
        books.observe(seen("p", HALF, version=version, node="n", started=started))
        states.append(books.holding("p").state)
    books.reserve(reservation("p", HALF))

    assert states == [State.RESERVED, State.BOUND, State.RUNNING, State.RUNNING]
    assert books.holding("p").state is State.RUNNING
    books.release("p")
    books.observe(seen("p", HALF, version=3, node="n", started=True))
    assert books.holding("p") is None


# What the API server shows


def test_a_pod_placed_by_another_scheduler_is_counted() -> None:
    """From its annotations, before and after it is bound."""
    books = ledger()
    books.observe(seen("p", HALF, version=1))
    assert (mib(books), books.holding("p").state) == (20000, State.RESERVED)
    books.observe(seen("p", HALF, version=2, node="n", started=True))

    assert (mib(books), books.holding("p").state) == (20000, State.RUNNING)


def test_two_pods_of_one_node_have_a_record_each() -> None:
    """Whatever order they are seen in."""
    books = ledger(card("a"), card("b"))
    books.observe(seen("q", SMALL, "b"))
    books.observe(seen("p", HALF, "a"))

    assert (mib(books, "a"), mib(books, "b")) == (20000, 10240)
    assert books.holders("n", "b").keys() == {"q"}


def test_an_old_annotation_does_not_move_a_pod_back() -> None:
    """Placed on n1, not bound, placed on n2; then the first is told again."""
    books = Ledger()
    for name in ("n1", "n2"):
        books.set_host(host(card(), name=name))
    first = seen("p", HALF, version=1, placed_on="n1")
    for pod in (first, seen("p", HALF, version=2, placed_on="n2"), first):
        books.observe(pod)

    assert (mib(books, name="n1"), mib(books, name="n2")) == (0, 20000)


def test_a_pod_that_another_scheduler_did_not_bind_counts_no_more() -> None:
    """Five minutes after it was placed; but if it is bound after all, it does."""
    books = ledger()
    books.observe(seen("p", HALF, version=1, placed_at=1000))
    assert books.expire(1299) == ()
    assert [held.owner for held in books.expire(1300)] == ["p"]
    assert mib(books) == 0
    books.observe(seen("p", HALF, version=2, placed_at=1000))
    assert mib(books) == 0

    books.observe(seen("p", HALF, version=3, placed_at=1350))
    assert mib(books) == 20000
    books.expire(1e9)
    books.observe(seen("p", HALF, version=4, placed_at=1350, node="n"))
    assert mib(books) == 20000


INIT_APP = wants((INIT, 20480), (APP, 10240))


@pytest.mark.parametrize(
    ("kwargs", "expected"),
    [
        pytest.param({}, 20480, id="init runs"),
        pytest.param({"started": True}, 20480, id="init failed and starts again"),
        pytest.param({"init_done": True}, 10240, id="init ended well (r00)"),
        pytest.param({"ended": True}, 0, id="the pod ended"),
    ],
)
def test_the_phase_says_what_is_held(kwargs: dict[str, bool], expected: int) -> None:
    """Also if the pod is first seen so, after a restart (r01: deleted, and not ended)."""
    books = ledger()
    books.observe(seen("p", INIT_APP, node="n", **kwargs))

    assert mib(books) == expected


def test_pods_that_a_list_does_not_show_are_gone() -> None:
    """Those that were deleted while nobody watched; decisions stay."""
    books = ledger()
    books.observe(seen("p", HALF))
    books.observe(seen("q", SMALL))
    books.reserve(reservation("r", wants((APP, 1))))
    books.retain({"q"})

    assert mib(books) == 10241


# Doubt


def test_a_pod_whose_annotation_cannot_be_read_fences_its_host() -> None:
    """The last good value is kept (r02); once it can be read again, the fence is gone."""
    books = ledger()
    books.observe(seen("p", HALF, version=1, node="n"))
    books.observe(seen("p", HALF, version=2, node="n", allocation=(), trouble="no uuid"))

    assert mib(books) == 20000
    assert "p" in books.use("n").fence
    assert "no uuid" in books.reserve(reservation("q", SMALL))
    books.observe(seen("p", HALF, version=3, node="n"))
    assert books.reserve(reservation("q", SMALL)) == ""


def test_after_a_restart_such_a_pod_fences_too() -> None:
    """Nothing is known of it then, and it goes when the pod goes."""
    books = ledger()
    books.observe(seen("p", HALF, node="n", allocation=(), trouble="no uuid"))

    assert "no uuid" in books.reserve(reservation("q", SMALL))
    books.release("p")
    assert books.reserve(reservation("q", SMALL)) == ""


def test_an_annotation_of_another_pod_is_none() -> None:
    """Cards for two containers on a pod of one."""
    books = ledger()
    books.observe(seen("p", HALF, node="n", allocation=on("aa", wants((APP, 1), (APP, 2)))))

    assert used(books) == NOTHING
    assert "2 containers" in books.use("n").fence


def test_a_pod_bound_to_another_node_than_it_was_placed_on() -> None:
    """It holds nothing there, and what it holds here is not known."""
    books = Ledger()
    for name in ("n", "m"):
        books.set_host(host(card(), name=name))
    books.observe(seen("p", HALF, placed_on="n", node="m"))

    assert mib(books, name="n") == 0
    assert books.use("m").fence
    assert not books.use("n").fence


def test_a_card_that_is_not_registered_stays_counted() -> None:
    """A replaced card takes its users along; they do not move to the new one."""
    books = ledger(card("a"))
    books.observe(seen("p", HALF, node="n"))
    books.set_host(host(card("b")))

    assert (mib(books, "a"), mib(books, "b")) == (20000, 0)
    assert books.reserve(reservation("q", WHOLE, "b")) == ""
    assert books.reserve(reservation("r", SMALL, "a")) != ""
    books.release("p")
    assert used(books, "a") == NOTHING


def test_a_card_that_shrank_under_its_users() -> None:
    """They stay; nothing new until they fit again."""
    books = ledger(card("a"))
    books.reserve(reservation("p", HALF), reservation("q", SMALL))
    books.set_host(host(card("a", 24576)))

    assert mib(books) == 30240
    assert books.reserve(reservation("r", wants((APP, 1)))) != ""
    books.release("p")
    assert books.reserve(reservation("r", wants((APP, 1)))) == ""


@pytest.mark.parametrize("card_uuid", ["", "a"])
def test_fences_are_lifted_by_those_who_set_them(card_uuid: str) -> None:
    """Two reasons, one of them gone: still fenced."""
    books = ledger()
    books.reserve(reservation("p", SMALL))
    books.fence("n", "torn cable", card_uuid, "x")
    books.fence("n", "smoke", card_uuid, "y")
    books.fence("n", "smoke", card_uuid, "y")
    books.unfence("n", card_uuid, "y")

    assert books.reserve(reservation("q", SMALL)) != ""
    assert mib(books) == 10240
    books.unfence("n", card_uuid, "x")
    books.unfence("n", card_uuid, "x")
    assert books.reserve(reservation("q", SMALL)) == ""


MIG_CARD = card("a", mode="mig", profiles=(MigProfile("1g", 4864, 15, 1, ((0, 1), (1, 1))),))
ONE_G = wants((APP, 4864))


def placed(start: int | None) -> dict[str, object]:
    """One instance on the card, or one whose place is not told."""
    where = None if start is None else Slice("1g", start, 1)
    return {"allocation": ((Grant("a", NVIDIA, 4864, 15, where),),), "node": "n"}


@pytest.mark.parametrize(
    ("starts", "fenced"),
    [
        pytest.param([0, 1], False, id="side by side"),
        pytest.param([0, 0], True, id="both at one place"),
        pytest.param([5], True, id="a place that the card does not have"),
        pytest.param([None], True, id="no place is told"),
    ],
)
def test_places_on_a_mig_card_that_cannot_be(starts: list[int | None], fenced: bool) -> None:
    """Fence the card, count on."""
    books = ledger(MIG_CARD)
    for number, start in enumerate(starts):
        books.observe(seen(f"p{number}", ONE_G, **placed(start)))

    use = books.use("n").use("a")
    assert use.amount == (len(starts), 4864 * len(starts), 15 * len(starts))
    assert bool(use.fence) == fenced


def test_the_place_of_an_init_container_is_kept() -> None:
    """Though it is not charged any more once it has ended: the instance is there."""
    books = ledger(MIG_CARD)
    place = ((Grant("a", NVIDIA, 4864, 15, Slice("1g", 0, 1)),), ())
    pod = wants((INIT, 4864), (APP, 0), mutex=True)
    books.observe(seen("p", pod, node="n", init_done=True, allocation=place))
    use = books.use("n").use("a")
    assert (use.amount, use.slices, use.fence) == (NOTHING, (Slice("1g", 0, 1),), "")
    assert not use.closed
    books.release("p")
    assert books.use("n").uses == {}


def test_an_app_may_have_the_place_of_its_init_container() -> None:
    """HAMi gives it so; others may not."""
    books = ledger(MIG_CARD)
    both = tuple((Grant("a", NVIDIA, 4864, 15, place),) for place in [Slice("1g", 0, 1)] * 2)
    books.observe(seen("p", wants((INIT, 4864), (APP, 4864)), node="n", allocation=both))

    use = books.use("n").use("a")
    assert (use.amount.slots, use.slices, use.fence) == (1, (Slice("1g", 0, 1),), "")


@pytest.mark.parametrize(
    ("other", "profile", "taken"),
    [
        pytest.param({"mode": "whole"}, "", True, id="a whole card"),
        pytest.param({"mode": "whole", "vendor": "MLU"}, "", False, id="another vendor"),
        pytest.param({"mode": "hami-core"}, "", False, id="shared by software"),
        pytest.param({"mode": "mig-instance"}, "", False, id="an instance is no card"),
        pytest.param({"mode": "whole"}, "1g", False, id="a card is no instance"),
        pytest.param(
            {"mode": "mig-instance", "profiles": MIG_CARD.profiles}, "1g", True, id="an instance"
        ),
        pytest.param(
            {"mode": "mig-instance", "profiles": MIG_CARD.profiles}, "2g", False, id="another size"
        ),
    ],
)
def test_which_cards_a_plain_device_plugin_hands_out(
    other: dict[str, Any], profile: str, taken: bool
) -> None:
    """If there is none of the kind, nobody knows what the pod has."""
    books = ledger(replace(card("a"), slots=1, **other))
    books.observe(seen("p", WHOLE, allocation=(), node="n", asks={(NVIDIA, profile): 1}))

    use = books.use("n")
    assert (use.use("a").amount.slots, not use.fence) == ((1, True) if taken else (0, False))


def test_cards_that_nobody_named() -> None:
    """A plain device plugin hands out whole cards: so many of them are in use, any of them."""
    whole = [card(uuid, mode="whole", slots=1) for uuid in "abc"]
    books = ledger(*whole)
    books.observe(seen("q", WHOLE, allocation=(), node="n", asks={(NVIDIA, ""): 1}))
    books.observe(seen("p", WHOLE, allocation=(), node="n", asks={(NVIDIA, ""): 1}))
    one = reservation("r", wants((APP, 40960), cores=100), "c")

    assert [used(books, uuid).slots for uuid in "abc"] == [1, 1, 0]
    assert books.use("n").fence == ""
    assert books.reserve(one) == ""
    books.observe(seen("s", WHOLE, allocation=(), node="n", asks={(NVIDIA, ""): 1}))
    assert "nobody noted" in books.use("n").fence
    for uid in "pqs":
        books.release(uid)
    assert [used(books, uuid).slots for uuid in "abc"] == [0, 0, 1]


# Namespaces


def test_a_namespace_has_no_more_than_its_limits() -> None:
    """Charged as checked: of two that ask at once one gets it; the tighter limit holds."""
    books = ledger(card("a"), card("b"))
    books.limit("ns", "quota/a", {NVIDIA: Limit(memory_mib=20000)})
    books.limit("ns", "quota/b", {NVIDIA: Limit(memory_mib=90000, cards=9)})
    twelve = wants((APP, 12000))

    assert books.reserve(reservation("p", twelve)) == ""
    why = books.reserve(reservation("q", twelve, "b"))
    assert "24000" in why
    assert "20000" in why
    assert "quota/a" in why
    assert books.reserve(reservation("q", twelve, "b", namespace="other")) == ""
    books.limit("ns", "quota/a", {NVIDIA: Limit(memory_mib=24000)})
    assert books.reserve(reservation("r", twelve, "b")) == ""
    assert books.totals("ns") == {NVIDIA: (2, 24000, 0)}


@pytest.mark.parametrize(
    ("limit", "pod"),
    [
        pytest.param(Limit(cards=1), wants((APP, 1), (APP, 1)), id="cards"),
        pytest.param(Limit(cores=50), wants((APP, 1), cores=60), id="cores"),
        pytest.param(Limit(memory_mib=0), wants((APP, 1)), id="0 is nothing at all"),
        pytest.param(Limit(memory_mib=9), wants((INIT, 10), (APP, 1)), id="a peak counts"),
    ],
)
def test_each_quantity_can_be_limited(limit: Limit, pod: PodWants) -> None:
    """Refused, and granted once the limit is gone."""
    books = ledger()
    books.limit("ns", "quota", {NVIDIA: limit, "MLU": Limit(0, 0, 0)})

    assert "quota allows" in books.reserve(reservation("p", pod))
    books.limit("ns", "quota", {})
    assert books.reserve(reservation("p", pod)) == ""


# Seats


def gang(count: int, pod: PodWants = SMALL, **kwargs: object) -> list[Reservation]:
    """Seats of job j, all on one card."""
    return [reservation(Replica("j", number), pod, **kwargs) for number in range(count)]


def test_a_pod_takes_its_seat_and_leaves_it() -> None:
    """Charged once at any time: as a seat, as the decision, as what is seen, as a seat again."""
    books = ledger()
    books.reserve(*gang(2))
    seat = Replica("j", 1)
    assert books.adopt(seat, "p") == ""
    assert used(books) == (2, 20480, 0)
    assert books.holding(seat) is None
    books.observe(seen("p", SMALL, version=1, gated=True, allocation=()))
    books.observe(seen("p", SMALL, version=2, seat=seat, allocation=(), placed_on=""))
    books.observe(seen("p", SMALL, version=3, seat=seat, node="n"))
    assert used(books) == (2, 20480, 0)
    assert books.holding("p").state is State.BOUND
    books.release("p")

    assert used(books) == (2, 20480, 0)
    assert books.holding(seat).state is State.RESERVED
    books.withdraw("j")
    assert used(books) == NOTHING


def test_a_seat_is_taken_by_one_pod() -> None:
    """Of two that want it the second is told no."""
    books = ledger()
    books.reserve(*gang(1))

    assert books.adopt(Replica("j", 0), "p") == ""
    assert books.adopt(Replica("j", 0), "p") == ""
    assert books.adopt(Replica("j", 0), "q") != ""
    assert books.reserve(*gang(1)) != ""
    books.cancel("p")
    assert books.adopt(Replica("j", 0), "q") == ""


def test_seats_beyond_what_the_job_needs_are_free() -> None:
    """One pod of three has ended well, one runs: one seat is kept."""
    books = ledger()
    books.reserve(*gang(3))
    books.observe(seen("p", SMALL, seat=Replica("j", 2), node="n"))
    books.need("j", 2)
    assert used(books) == (2, 20480, 0)
    books.need("j", 1)
    assert used(books) == (1, 10240, 0)
    books.need("j", 0)
    assert books.holding("p") is not None


def test_a_seat_lapses_and_can_be_reserved_again() -> None:
    """A pod that comes too late has to be decided for anew; it is, if there is room."""
    books = ledger()
    books.reserve(*gang(1, WHOLE))
    assert books.expire(100)
    assert books.adopt(Replica("j", 0), "p") != ""
    books.reserve(reservation("q", HALF))
    assert books.reserve(*gang(1, WHOLE, deadline=300)) != ""
    assert books.holding(Replica("j", 0)) is None
    books.release("q")
    assert books.reserve(*gang(1, WHOLE, deadline=300)) == ""
    assert books.adopt(Replica("j", 0), "p") == ""
    assert [held.owner for held in books.expire(300)] == ["p"]
    assert used(books) == NOTHING


def test_a_pod_that_may_be_bound_at_any_time_keeps_its_cards() -> None:
    """Past its deadline it is told of, for somebody to delete it."""
    books = ledger()
    books.reserve(*gang(1))
    books.observe(seen("p", SMALL, seat=Replica("j", 0), allocation=()))

    assert books.expire(1000) == ()
    assert [held.owner for held in books.overdue(1000)] == ["p"]
    assert mib(books) == 10240
    books.observe(seen("p", SMALL, version=2, seat=Replica("j", 0), node="n"))
    assert books.overdue(1000) == ()


def test_what_somebody_wrote_on_a_pod_of_ours_counts_once_it_is_bound() -> None:
    """Until then what was decided counts, and a gated pod has nothing of its own."""
    books = ledger(card("a"), card("b"))
    books.reserve(*gang(1))
    lie = {"uuid": "b", "seat": Replica("j", 0)}
    books.observe(seen("p", SMALL, version=1, gated=True, **lie))
    assert (mib(books, "a"), mib(books, "b")) == (10240, 0)
    books.observe(seen("p", SMALL, version=2, **lie))
    assert (mib(books, "a"), mib(books, "b")) == (10240, 0)
    books.observe(seen("p", SMALL, version=3, node="n", **lie))

    assert (mib(books, "a"), mib(books, "b")) == (0, 10240)


@pytest.mark.parametrize(
    ("noted", "expected"), [("a", 10240), ("a less", 10240), ("a more", 20000), ("b", 0)]
)
def test_what_a_running_pod_holds_is_not_talked_down(noted: str, expected: int) -> None:
    """A note of less of the same card was changed after the card was handed out."""
    books = ledger(card("a"), card("b"))
    books.reserve(*gang(1))
    seat, pods = Replica("j", 0), {"a less": wants((APP, 1)), "a more": HALF}
    books.observe(seen("p", SMALL, version=1, seat=seat, node="n"))
    pod = pods.get(noted, SMALL)
    books.observe(seen("p", pod, version=2, seat=seat, node="n", uuid=noted[0], started=True))

    assert mib(books, "a") == expected


@pytest.mark.parametrize(("taken", "blocked"), [(30000, False), (40000, True)])
def test_a_pod_is_told_that_its_cards_are_taken(taken: int, blocked: bool) -> None:
    """Until it is bound; what changed is not said to have changed by asking."""
    books = ledger(card("a"))
    books.reserve(*gang(1))
    seat = Replica("j", 0)
    books.observe(seen("p", SMALL, version=1, seat=seat, allocation=(), placed_on=""))
    books.observe(seen("alien", wants((APP, taken)), node="n"))
    books.changed()

    assert bool(books.obstacle("p")) is blocked
    assert books.obstacle("alien") == books.obstacle("nobody") == ""
    assert books.changed() == set()
    assert used(books) == (2, 10240 + taken, 0)
    books.observe(seen("p", SMALL, version=2, seat=seat, node="n"))
    assert books.obstacle("p") == ""


def test_pods_that_are_not_told_their_seats() -> None:
    """All seats are the same then; each pod takes one, and gives it back."""
    books = ledger()
    books.reserve(*gang(3))
    for uid in "pq":
        books.observe(seen(uid, SMALL, seat=Replica("j", -1), allocation=()))
    assert used(books) == (3, 30720, 0)
    assert books.holding("p") is not None
    books.release("p")
    assert used(books) == (3, 30720, 0)
    books.release("q")
    assert used(books) == (3, 30720, 0)
    books.withdraw("j")
    assert used(books) == NOTHING


def test_a_seat_whose_cards_are_not_sound_any_more_is_not_taken() -> None:
    """The card was cordoned, or others have grown into it: to be decided anew."""
    books = ledger(card("a"))
    books.reserve(*gang(1, WHOLE))
    books.set_host(host(card("a", cordoned=True)))
    assert books.adopt(Replica("j", 0), "p") != ""
    books.set_host(host(card("a")))
    books.observe(seen("alien", SMALL, node="n"))
    assert books.adopt(Replica("j", 0), "p") != ""
    books.release("alien")
    assert books.adopt(Replica("j", 0), "p") == ""


# Who wants to know


def test_hosts_that_changed_are_told_once() -> None:
    """And only those."""
    books = Ledger()
    for name in ("n", "m", "o"):
        books.set_host(host(card(), name=name))
    books.changed()
    books.reserve(reservation("p", SMALL))
    assert books.changed() == {"n"}
    assert books.changed() == set()
    books.observe(seen("q", SMALL, placed_on="m"))
    books.observe(seen("q", SMALL, placed_on="m", version=2))
    assert books.changed() == {"m"}
    books.drop_host("o")
    books.set_host(host(card(), name="n"))
    assert books.changed() == {"o"}
    assert books.hosts() == ["m", "n"]


def test_the_use_of_a_host_is_a_value() -> None:
    """It is made once, and does not change afterwards."""
    books = ledger()
    before = books.use("n")
    assert books.use("n") is before
    books.reserve(reservation("p", SMALL))
    after = books.use("n")

    assert before is not None
    assert before.use("a").amount == NOTHING
    assert after is not None
    assert after.use("a").amount == (1, 10240, 0)


# Claims


def claimed(uuid: str = "a", pods: tuple[str, ...] = ("p",), name: str = "n") -> Claimed:
    """A claim that has a share of a card."""
    share = Holding("", "ns", name, (APP,), ((Grant(uuid, NVIDIA, 5000, 10),),), State.BOUND)
    return Claimed("claim", pods, (share,))


def test_a_claim_counts_until_it_is_allocated_no_more() -> None:
    """In the same sums as everything else."""
    books = ledger()
    books.claim(claimed())
    books.claim(claimed())
    assert used(books) == (1, 5000, 10)
    assert books.reserve(reservation("q", wants((APP, 36000)))) != ""
    books.release("p")
    assert used(books) == (1, 5000, 10)
    books.claim(Claimed("claim", ()))
    assert used(books) == NOTHING


def test_a_card_that_a_claim_gives_is_not_charged_to_the_pod_again() -> None:
    """Whichever is heard of first; other cards of the pod are."""
    pod = wants((APP, 20000), (APP, 1000))
    both = seen("p", pod, node="n", allocation=on(["a", "b"], pod))
    for order in (0, 1):
        books = ledger(card("a"), card("b"))
        news = [(books.claim, claimed()), (books.observe, both)]
        for tell, what in reversed(news) if order else news:
            tell(what)
        assert (used(books, "a"), used(books, "b")) == ((1, 5000, 10), (1, 1000, 0))
        books.claim(Claimed("claim", ()))
        assert (used(books, "a"), used(books, "b")) == ((1, 20000, 0), (1, 1000, 0))


def test_who_placed_a_pod_in_the_future_keeps_no_cards_for_it() -> None:
    """It counts once it is bound; a clock that is a little ahead is believed."""
    for when, counted in ((1060, 20000), (1061, 0), (9e11, 0)):
        books = ledger()
        books.observe(seen("p", HALF, version=1, placed_at=when))
        books.expire(1000)
        books.observe(seen("q", HALF, version=2, placed_at=when))
        books.expire(1000)
        assert mib(books) == 2 * counted
        books.observe(seen("p", HALF, version=3, placed_at=when, node="n"))
        assert mib(books) == 20000 + counted
