"""The watch over clusters, on virtual time: fences by compare-and-swap, the canary, the brake."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import httpx
import pytest

from bench.dst.clock import VirtualLoop
from federation.api.names import FEDQ_NAMESPACE, FENCED, Lease
from federation.core.failover import DEFAULT, FAST, Standing, Timings
from federation.core.health import Facts, Fence, Phase
from federation.core.lease import STEADY, Cause
from federation.edge.resources import LEASES
from tests.unit.manager.virtual import Scene, virtually

Story = Callable[[Scene], Coroutine[Any, Any, None]]


def play(story: Story, *names: str, timings: Timings = DEFAULT) -> None:
    """Run a story on clusters that have been well for a while."""

    async def main(loop: VirtualLoop) -> None:
        scene = Scene(loop, *names, timings=timings)
        await scene.start()
        assert {scene.phase(name) for name in names} == {Phase.READY}
        try:
            await story(scene)
        finally:
            await scene.end()

    virtually(main)


def suspect(standing: Standing) -> bool:
    return standing.suspect


def gone(below: int) -> Callable[[Standing], bool]:
    return lambda standing: standing.stopped_below >= below


def _of(request: httpx.Request, lease: str) -> bool:
    return request.url.raw_path.decode().partition("?")[0].endswith(f"/leases/{lease}")


def puts(scene: Scene, name: str) -> int:
    return sum(method == "PUT" and path.endswith(f"/{name}") for method, path in scene.home.log)


@pytest.mark.parametrize("timings", [DEFAULT, FAST], ids=["default", "fast"])
def test_lost(timings: Timings) -> None:
    """Suspect, fenced by one write, given up, each when it is due after the last renewal."""

    async def story(scene: Scene) -> None:
        scene.cut.add("a")
        await scene.until(lambda: scene.phase("a") is Phase.LOST)
        last = scene.renewed["a"]
        lease, notes = scene.lease("a"), scene.lease("a")["metadata"]["annotations"]

        assert timings.suspect <= scene.first("a", suspect) - last <= timings.suspect + 1.5
        assert timings.rerun <= scene.first("a", gone(2)) - last <= timings.rerun + 1.5
        assert (lease["spec"]["holderIdentity"], scene.epoch("a"), puts(scene, "a")) == (
            FENCED,
            2,
            1,
        )
        assert notes[Lease.FENCE_CAUSE.value] == "silent"
        assert scene.told(suspect) == {"a"}
        assert scene.phase("b") is Phase.READY

    play(story, "a", "b", timings=timings)


def test_back() -> None:
    """In its new epoch, with new work at once; if it was lost twice in a short time, only after
    it was well for a while.
    """

    async def story(scene: Scene) -> None:
        await scene.after(STEADY * DEFAULT.recover)
        waits = []
        for epoch in (2, 3):
            scene.cut.add("a")
            await scene.until(lambda: scene.fenced("a"))
            scene.cut.clear()
            back = await scene.until(lambda: not scene.fenced("a"))
            waits.append(await scene.until(lambda: scene.phase("a") is Phase.READY) - back)
            assert scene.watcher.verdict("a").standing.present
            assert scene.epoch("a") == epoch

        assert waits[0] < 2
        assert DEFAULT.recover <= waits[1] <= DEFAULT.recover + DEFAULT.renew

    play(story, "a", "b")


def test_a_cut_shorter_than_the_lease() -> None:
    """Nothing is written, no epoch ends."""

    async def story(scene: Scene) -> None:
        scene.cut.add("a")
        await scene.after(100)
        assert scene.phase("a") is Phase.SUSPECT
        scene.cut.clear()
        await scene.until(lambda: scene.phase("a") is Phase.READY)

        assert (scene.epoch("a"), puts(scene, "a")) == (1, 0)

    play(story, "a", "b")


def test_a_link_that_comes_and_goes() -> None:
    """15 s and 15 s for ten minutes, with short times: no fence, and no new work in between."""

    async def story(scene: Scene) -> None:
        for _ in range(20):
            scene.cut.add("a")
            await scene.after(15)
            scene.cut.clear()
            await scene.after(15)

        assert (scene.epoch("a"), puts(scene, "a")) == (1, 0)

    play(story, "a", "b", timings=FAST)


def test_clocks_on_the_wall_do_not_matter() -> None:
    """The agents' jump by years with every renewal: no state changes, and a loss is found out in
    the same time.
    """

    async def story(scene: Scene) -> None:
        for n in range(60):
            scene.wall = (-1) ** n * 10.0 * n
            await scene.after(7)
        assert scene.told(suspect) == set()
        scene.cut.add("a")
        await scene.until(lambda: scene.phase("a") is Phase.SUSPECT)
        assert 50 <= scene.loop.now - scene.renewed["a"] <= 52

    play(story, "a", "b")


def test_a_cluster_that_answers_nothing_but_renews() -> None:
    """Its API is away for 60 s in every five minutes of an hour, or its kubeconfig has expired: it
    is shown, and nothing else happens.
    """

    async def story(scene: Scene) -> None:
        for _ in range(12):
            scene.facts["a"] = Facts(unusable="ClientConnectionFailed: no answer", listed=False)
            scene.watcher.look()
            assert scene.phase("a") is Phase.UNUSABLE
            await scene.after(60)
            scene.facts["a"] = Facts()
            await scene.after(240)

        assert scene.told(suspect) == set()
        assert puts(scene, "a") == 0
        assert scene.phase("a") is Phase.READY

    play(story, "a", "b")


# Compare-and-swap


def test_a_fence_that_comes_too_late() -> None:
    """The agent renewed, and the watch has not shown it: the write loses, the Lease is read."""

    async def story(scene: Scene) -> None:
        known = scene.watcher.leases.watches["a"].seen
        assert known is not None
        scene.wire.freeze()
        await scene.after(30)  # renewed meanwhile
        before = scene.watcher.leases.watches["a"].renewed_at
        await scene.watcher.leases.fence("a", Fence(2, Cause.SILENT, known.version))
        after = scene.watcher.leases.watches["a"]

        assert (scene.epoch("a"), scene.fenced("a")) == (1, False)
        assert before is not None
        assert after.renewed_at is not None
        assert after.renewed_at > before

    play(story, "a", "b")


@pytest.mark.parametrize("names", ["a", "abc"], ids=["one cluster", "three"])
def test_a_frozen_watch(names: str) -> None:
    """It is the manager that is blind: the brake holds before anybody is suspect."""

    async def story(scene: Scene) -> None:
        scene.wire.freeze()
        await scene.after(300)
        assert "canary" in scene.watcher.brake.reason
        scene.wire.freeze(False)
        await scene.until(lambda: not scene.watcher.brake.reason)
        await scene.after(200)

        assert scene.told(suspect) == set()
        assert [name for name in names if scene.epoch(name) != 1] == []

    play(story, *names)


def test_the_answer_to_a_fence_is_lost() -> None:
    """It took place: the watch brings it, it is not put again, and the wait is no longer."""

    async def story(scene: Scene) -> None:
        scene.home.fail(lambda request: request.method == "PUT" and _of(request, "a"), how="lost")
        scene.cut.add("a")
        await scene.until(lambda: scene.phase("a") is Phase.LOST)

        assert (scene.epoch("a"), puts(scene, "a")) == (2, 1)
        assert 180 <= scene.first("a", gone(2)) - scene.renewed["a"] <= 181.5

    play(story, "a", "b")


# The brake


@pytest.mark.parametrize("seconds", [60, 300])
@pytest.mark.parametrize("names", ["a", "ab", "abcd"], ids=["one", "two", "four"])
def test_the_management_api_is_away(names: str, seconds: int) -> None:
    """No fence and no re-run, however long, and no storm when it is back."""

    async def story(scene: Scene) -> None:
        scene.home.cut()
        await scene.after(seconds)
        assert "canary" in scene.watcher.brake.reason
        assert not any(s.suspect or s.silent for _, s in scene.heard)
        scene.home.heal()
        scene.home.drop_watches()
        await scene.after(400)

        assert scene.told(suspect) == set()
        assert [(name, scene.epoch(name)) for name in names] == [(name, 1) for name in names]
        assert {scene.phase(name) for name in names} == {Phase.READY}

    play(story, *names)


def test_the_canary_comes_and_goes() -> None:
    """As on a machine that is busy: fast times, every second second writes fail for seven. The
    brake is set once, and let go once.
    """

    async def story(scene: Scene) -> None:
        changes: list[tuple[float, bool]] = []

        async def storm() -> None:
            for _ in range(20):
                scene.home.fail(lambda request: _of(request, "fedq-canary"), times=4)
                await scene.after(9)

        task = asyncio.create_task(storm())
        held = False
        while not task.done() or scene.watcher.brake.reason:
            if bool(scene.watcher.brake.reason) != held:
                held = not held
                changes.append((scene.loop.now, held))
            await scene.after(0.5)
        assert [held for _, held in changes] == [True]
        assert changes[0][0] < 30

    play(story, "a", "b", timings=FAST)


def test_writes_that_take_long_do_not_put_the_next_ones_off() -> None:
    """Each takes three seconds: with fast times that is no reason for the brake."""

    async def story(scene: Scene) -> None:
        scene.wire.slow = lambda request: 3.0 if _of(request, "fedq-canary") else 0.0
        for _ in range(240):
            await scene.after(0.5)
            assert not scene.watcher.brake.reason

    play(story, "a", "b", timings=FAST)


def test_only_the_canary_fails() -> None:
    """The manager cannot write: it decides nothing, and says why."""

    async def story(scene: Scene) -> None:
        scene.home.fail(lambda request: _of(request, "fedq-canary"), times=10**6)
        scene.cut.add("a")
        await scene.after(400)
        verdict = scene.watcher.verdict("a")

        assert (verdict.phase, scene.epoch("a")) == (Phase.SUSPECT, 1)
        assert verdict.next is not None
        assert "canary" in verdict.next.what
        assert "injected fault" in verdict.next.what

    play(story, "a", "b")


def test_most_clusters_are_silent() -> None:
    """None is given up. When most are back, the others get a while more, then they are."""

    async def story(scene: Scene) -> None:
        scene.cut |= {"a", "b", "c"}
        await scene.after(600)
        assert scene.watcher.brake.reason == "3 of 4 clusters are silent at once"
        assert scene.told(suspect) == set()
        scene.cut -= {"b", "c"}
        released = await scene.until(lambda: not scene.watcher.brake.reason)
        fenced = await scene.until(lambda: scene.fenced("a"))

        calm = released - DEFAULT.recover  # it was held for a while, and that counts
        assert 49 <= fenced - calm <= 52
        assert [scene.epoch(name) for name in "bcd"] == [1, 1, 1]

    play(story, "a", "b", "c", "d")


@pytest.mark.parametrize(
    ("names", "lost"), [("a", "a"), ("ab", "a"), ("abcd", "ab"), ("abcdefghij", "abcde")]
)
def test_half_of_the_clusters_is_lost(names: str, lost: str) -> None:
    """One of one, one of two, or half of more: that is no brake."""

    async def story(scene: Scene) -> None:
        scene.cut |= set(lost)
        await scene.until(lambda: all(scene.phase(name) is Phase.LOST for name in lost))

        for name in lost:
            assert 180 <= scene.first(name, gone(2)) - scene.renewed[name] <= 181.5

    play(story, *names)


# The manager is not there


@pytest.mark.parametrize("away", [10, 360])
def test_restarted(away: float) -> None:
    """Every cluster gets a whole L_W anew, whatever it did meanwhile; those that renew lose
    nothing.
    """

    async def story(scene: Scene) -> None:
        scene.cut.add("a")
        await scene.after(100)
        await scene.stop_manager()
        await scene.after(away)
        began = scene.loop.now
        await scene.start_manager()
        fenced = await scene.until(lambda: scene.fenced("a"))
        await scene.until(lambda: scene.phase("a") is Phase.LOST)

        assert 120.2 <= fenced - began <= 122
        assert 180 <= scene.first("a", gone(2), began) - began <= 182
        assert (scene.epoch("b"), scene.told(suspect)) == (1, {"a"})

    play(story, "a", "b")


def test_restarted_after_the_fence() -> None:
    """What the fence had waited for need not be waited for again."""

    async def story(scene: Scene) -> None:
        scene.cut.add("a")
        await scene.until(lambda: scene.fenced("a"))
        await scene.stop_manager()
        await scene.after(5)
        began = scene.loop.now
        await scene.start_manager()
        await scene.until(lambda: scene.phase("a") is Phase.LOST)
        waited = DEFAULT.rerun - DEFAULT.lease * DEFAULT.skew

        assert waited <= scene.first("a", gone(2), began) - began <= waited + 1.5

    play(story, "a", "b")


def test_trouble_is_not_forgotten_by_a_restart() -> None:
    """A cluster that was shown as suspect proves itself again."""

    async def story(scene: Scene) -> None:
        await scene.stop_manager()
        await scene.start_manager(a="Suspect", b="Ready")

        assert (scene.phase("a"), scene.phase("b")) == (Phase.RECOVERING, Phase.READY)
        await scene.until(lambda: scene.phase("a") is Phase.READY, 60)

    play(story, "a", "b")


# Leases that are not as they should be


def test_a_lease_is_deleted() -> None:
    """It is made anew above its epoch and counts as fenced; its agent comes back in that."""

    async def story(scene: Scene) -> None:
        scene.home.delete(LEASES, "a", FEDQ_NAMESPACE)
        await scene.until(lambda: (FEDQ_NAMESPACE, "a") in scene.home.objects.data[LEASES], 3)

        assert (scene.epoch("a"), scene.fenced("a")) == (2, True)
        await scene.until(lambda: scene.phase("a") is Phase.READY, 100)

    play(story, "a", "b")


def test_a_cluster_of_which_only_jobs_are_left() -> None:
    """No object and no Lease: it is fenced above what is bound there, and waited for."""

    async def story(scene: Scene) -> None:
        scene.bound["x"] = 6
        made = await scene.until(lambda: (FEDQ_NAMESPACE, "x") in scene.home.objects.data[LEASES])
        assert (scene.epoch("x"), scene.fenced("x")) == (7, True)
        await scene.until(lambda: scene.phase("x") is Phase.LOST)

        assert 179.5 <= scene.first("x", gone(7)) - made <= 181.5

    play(story, "a", "b")


def test_a_cluster_is_taken_out_while_jobs_are_bound() -> None:
    """It is fenced after a while though its agent lives, and its jobs move."""

    async def story(scene: Scene) -> None:
        scene.bound["a"] = 1
        del scene.facts["a"]
        left = scene.loop.now
        await scene.until(lambda: scene.epoch("a") == 2)
        last = scene.renewed["a"]
        assert 50 <= scene.loop.now - left <= 52
        await scene.after(300)  # its agent takes the new epoch over, and renews on

        assert 180 <= scene.first("a", gone(2)) - last <= 181.5
        assert (scene.epoch("a"), scene.phase("a")) == (2, Phase.LEAVING)
        assert scene.watcher.verdict("a").standing.suspect

    play(story, "a", "b", "c")


def test_a_cluster_is_taken_out_for_a_moment() -> None:
    """Created again before it was fenced: nothing happened."""

    async def story(scene: Scene) -> None:
        scene.bound["a"] = 1
        facts = scene.facts.pop("a")
        await scene.after(15)
        assert scene.phase("a") is Phase.LEAVING
        scene.facts["a"] = facts
        await scene.after(300)

        assert (scene.epoch("a"), scene.phase("a")) == (1, Phase.READY)

    play(story, "a", "b", "c")


def test_the_settings_changed() -> None:
    """The Lease says so; the old lease counts until a renewal was made under the new one."""

    async def story(scene: Scene) -> None:
        await scene.stop_manager()
        scene.cut.add("a")
        scene.timings = replace(FAST, kill=30.0)
        scene.bound["b"] = 1
        await scene.start_manager()
        began = scene.loop.now
        await scene.after(25)
        old, new = scene.lease("a"), scene.lease("b")
        notes = new["metadata"]["annotations"]

        assert old["metadata"]["annotations"][Lease.LOWERED_FROM.value] == "120"
        assert new["spec"]["leaseDurationSeconds"] == 30
        assert (notes[Lease.RENEW_SECONDS.value], notes[Lease.KILL_SECONDS.value]) == ("5", "45")
        assert Lease.LOWERED_FROM.value not in notes
        await scene.until(lambda: scene.fenced("a"))
        assert 120 <= scene.loop.now - began <= 122

    play(story, "a", "b")


@pytest.mark.parametrize("name", ["fedq-manager", "fedq-canary"])
def test_a_cluster_cannot_have_the_name_of_another_lease(name: str) -> None:
    """Its fence would be put on the Lease by which managers know who leads."""

    async def story(scene: Scene) -> None:
        scene.facts[name] = Facts()
        scene.bound[name] = 7
        spec = {"holderIdentity": "me", "renewTime": "2026-01-01T00:00:00.000000Z"}
        found = scene.home.objects.data[LEASES].get((FEDQ_NAMESPACE, name))
        if found is None:
            meta = {"name": name, "namespace": FEDQ_NAMESPACE}
            scene.home.create(LEASES, {"metadata": meta, "spec": spec})
        await scene.after(300)
        assert name not in scene.watcher.verdicts
        assert scene.lease(name)["spec"]["holderIdentity"] != FENCED
        assert "fedq.io/epoch" not in scene.lease(name)["metadata"].get("annotations", {})

    play(story, "a")
