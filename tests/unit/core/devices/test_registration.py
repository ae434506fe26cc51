"""What device plugins register: every form, every field, every way to get it wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.core.devices.cards import Card, MigProfile
from federation.core.devices.wire.registration import decode, decode_cordon, decode_links
from federation.core.devices.wire.undecodable import LONGEST, MOST, UndecodableError
from federation.core.devices.wire.vendor_table import AMD, HYGON, METAX_SHARED, NVIDIA, VENDORS
from tests.unit.core.build import FEW
from tests.unit.core.devices.registrations import encode_colon, encode_json, encode_links

A10 = {
    "id": "g",
    "count": 10,
    "devmem": 24564,
    "devcore": 100,
    "type": "NVIDIA A10",
    "mode": "hami-core",
}
MIG_1G = {
    "name": "1g.5gb",
    "memoryMB": 4864,
    "core": 15,
    "sliceCount": 1,
    "placements": [{"start": 6, "size": 1}, {"size": 1}],
}


def test_go_leaves_zero_values_out() -> None:
    """Without health a card is unhealthy; index and numa are 0."""
    (card,) = decode(json.dumps([A10]), NVIDIA)
    assert card == Card("g", "NVIDIA", "NVIDIA A10", 24564, healthy=False)
    (healthy,) = decode(json.dumps([A10 | {"health": True}]), NVIDIA)
    assert healthy.healthy


def test_json_none_one_and_many() -> None:
    """An empty list is a node without cards; `null` is what Go writes for it."""
    assert decode("[]", NVIDIA) == decode("null", NVIDIA) == ()
    many = [A10 | {"id": f"g{n}", "index": 3 - n} for n in range(4)]
    assert [card.index for card in decode(json.dumps(many), NVIDIA)] == [0, 1, 2, 3]


def test_scaled_amounts_stand_as_they_are() -> None:
    """Memory and cores are registered scaled; unknown fields are let be."""
    text = json.dumps([A10 | {"devmem": 49128, "devcore": 200, "custominfo": {"x": [1]}}])
    (card,) = decode(text, NVIDIA)
    assert (card.memory_mib, card.cores) == (49128, 200)


def test_mig_profiles() -> None:
    """A start of 0 may be left out; the number of instances is not on the wire."""
    item = A10 | {"mode": "mig", "count": 7, "migProfiles": [MIG_1G]}
    (card,) = decode(json.dumps([item]), NVIDIA)
    assert card.profiles == (MigProfile("1g.5gb", 4864, 15, 1, ((6, 1), (0, 1))),)
    assert "instanceCount" not in encode_json([card])


def test_old_mig_templates_come_without_profiles() -> None:
    """HAMi before 2.10 fixes a whole card to one template: nothing is placed by it."""
    item = A10 | {"mode": "mig", "migtemplate": [[{"Name": "1g.5gb", "Memory": 5120, "Count": 7}]]}
    (card,) = decode(json.dumps([item]), NVIDIA)
    assert (card.mode, card.profiles) == ("mig", ())


@pytest.mark.parametrize(
    ("text", "index", "mode"),
    [
        ("g,10,24564,100,NVIDIA-A10,1,true:", 0, "hami-core"),
        ("g,10,24564,100,NVIDIA-A10,1,true,3,mps:", 3, "mps"),
        ("g,10,24564,100,NVIDIA-A10,1,true,3,:", 3, "hami-core"),
    ],
)
def test_colon_form(text: str, index: int, mode: str) -> None:
    """Seven fields have neither index nor mode."""
    (card,) = decode(text, NVIDIA)
    assert card == Card("g", "NVIDIA", "NVIDIA-A10", 24564, numa=1, index=index, mode=mode)


def test_colon_form_of_many() -> None:
    """A vendor's own word and Go's spellings of truth; empty parts are nothing."""
    text = "DCU-7,4,65520,100,K100-AI,0,true,3,hami-core:DCU-8,4,65520,100,K100-AI,0,0,4,hami-core:"
    first, second = decode(f":{text}:", HYGON)
    assert (first.uuid, first.vendor, first.slots, first.healthy) == ("DCU-7", "DCU", 4, True)
    assert (second.index, second.healthy) == (4, False)


@pytest.mark.parametrize("vendor", list(VENDORS), ids=lambda vendor: vendor.key)
def test_both_forms_are_read_for_every_vendor(vendor: Any) -> None:
    """Old plugins of every vendor wrote the colon form. Only MetaX has a spelling of its own."""
    if vendor is METAX_SHARED:
        return
    (card,) = decode("c,4,65520,100,X,0,true:", vendor)
    again = decode(encode_json([card]), vendor)
    assert card.vendor == vendor.key
    assert [c.uuid for c in again] == ["c"]


def test_metax() -> None:
    """Its own field names; the index is the position."""
    item = {"uuid": "M", "model": "C500", "totalDevCount": 16, "totalCompute": 100}
    text = json.dumps([item | {"totalVRam": 65536, "numa": 1, "healthy": True}])
    assert decode(text, METAX_SHARED) == (
        Card("M", "Metax-SGPU", "C500", 65536, 100, 16, numa=1, mode="hami-core"),
    )


def test_vendors_without_shares_of_compute_register_none() -> None:
    """Such a card has all of it; elsewhere none is none."""
    text = json.dumps([{"id": "7-0-batch-0", "count": 1, "type": "Vastai", "health": True}])
    vastai = VENDORS.get("Vastai")
    assert vastai is not None
    assert decode(text, vastai) == (Card("7-0-batch-0", "Vastai", "Vastai", 0, 100, 1),)
    assert decode(text, NVIDIA)[0].cores == 0


def test_amd_registers_compute_units() -> None:
    """Cores are percent everywhere; how many units that is stays known."""
    (card,) = decode(json.dumps([A10 | {"devcore": 304}]), AMD)
    assert (card.cores, card.units) == (100, 304)
    assert json.loads(encode_json([card]))[0]["devcore"] == 304


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"id": ""}, "id is ''"),
        ({"id": "a,b"}, "comma"),
        ({"id": "a;b"}, "semicolon"),
        ({"id": "a b"}, "space"),
        ({"id": 7}, "id is 7, not text"),
        ({"id": "x" * 300}, "id has 300 characters"),
        ({"count": "10"}, "count is '10', not a whole number"),
        ({"count": 1.0}, "count is 1.0"),
        ({"count": True}, "count is True"),
        ({"count": -1}, "count is -1, not within 0"),
        ({"devmem": 2**31}, "devmem is 2147483648"),
        ({"devmem": 10**400}, "devmem is a number of more than 64 bits"),
        ({"devcore": []}, "devcore is []"),
        ({"index": -1}, "index is -1"),
        ({"numa": "0"}, "numa is '0'"),
        ({"health": "true"}, "health is 'true', not true or false"),
        ({"type": {}}, "type is {}"),
        ({"mode": 1}, "mode is 1"),
        ({"migProfiles": {}}, "migProfiles is an object, not a list"),
        ({"migProfiles": [1]}, "entry 0 of migProfiles is 1"),
        ({"migProfiles": [{}]}, "no name"),
        ({"migProfiles": [MIG_1G, MIG_1G]}, "a name twice"),
        ({"migProfiles": [MIG_1G | {"memoryMB": 0}]}, "'1g.5gb': memoryMB is 0"),
        ({"migProfiles": [MIG_1G | {"placements": [{"start": 1}]}]}, "size is 0"),
        ({"migProfiles": [MIG_1G | {"placements": [{"start": 15, "size": 2}]}]}, "together"),
        ({"migProfiles": [MIG_1G] * 65}, "65 entries"),
    ],
)
def test_malformed_json_fields(change: dict[str, Any], said: str) -> None:
    """Each is an error that names the card, the field and what is wrong."""
    good = A10 | {"id": "first"}
    with pytest.raises(UndecodableError, match=r"^card 1: ") as error:
        decode(json.dumps([good, A10 | change]), NVIDIA)
    assert said in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "{",
        "[",
        "{}",
        "[1]",
        "[[]]",
        "[null]",
        '[{"id":NaN}]',
        '[{"id":"g","devmem":Infinity}]',
        "[" * 100_000,
        '[{"id":"g","devmem":' + "9" * 5000 + "}]",
        "x" * (LONGEST + 1),
        "[" + ",".join(['{"id":"g"}'] * (MOST + 1)) + "]",
        "g,1,1,1,m,0,true",
        "g:",
        ":::",
        "g,10,24564,100,A,1,true,3:",
        "g,10,24564,100,A,1:",
        "g,ten,24564,100,A,1,true:",
        "g,10,x,100,A,1,true:",
        "g,10,24564,,A,1,true:",
        "g,10,24564,100,A,one,true:",
        "g,10,24564,100,A,1,yes:",
        "g,10,24564,100,A,1,true,x,hami-core:",
        "g,10,24564,100,A,1,true,-1,hami-core:",
        "g,-1,24564,100,A,1,true:",
        "g,10,1_000,100,A,1,true:",
        "g,10,٣,100,A,1,true:",
        "g,10," + "9" * 30 + ",100,A,1,true:",
        ",10,24564,100,A,1,true:",
        "g,10,1,100,A:B,1,true:",
        "g,1,1,1,m,0,true:g,1,1,1,m,0,true:",
        '[{"id":"g"},{"id":"g"}]',
    ],
    ids=lambda text: text[:40],
)
def test_hostile_texts(text: str) -> None:
    """All are refused, none otherwise than by the error for it."""
    with pytest.raises(UndecodableError):
        decode(text, NVIDIA)


def test_what_cannot_be_printed_is_not_passed_on() -> None:
    """A model ends up on terminals: no escapes, no half characters."""
    (card,) = decode('[{"id":"g","type":"A\\u001b[31m\\ud800"}]', NVIDIA)
    assert card.model == "A?[31m?"


names = st.text(st.characters(categories=["L", "N"], include_characters="-."), min_size=1)
amounts = st.integers(0, 2**31 - 1)
places = st.integers(0, 7).flatmap(lambda s: st.tuples(st.just(s), st.integers(1, 8)))
profiles = st.builds(
    MigProfile,
    names,
    st.integers(1, 2**31 - 1),
    amounts,
    st.integers(0, 8),
    st.lists(places, max_size=3).map(tuple),
)
plain = {
    "uuid": names,
    "vendor": st.just("NVIDIA"),
    "model": names,
    "memory_mib": amounts,
    "cores": amounts,
    "slots": amounts,
    "index": amounts,
    "numa": st.integers(-1, 8),
    "mode": st.sampled_from(["hami-core", "mig", "mps"]),
    "healthy": st.booleans(),
}
with_profiles = plain | {
    "profiles": st.lists(profiles, max_size=3, unique_by=lambda p: p.name).map(tuple)
}


def cards(fields: dict[str, Any]) -> st.SearchStrategy[tuple[Card, ...]]:
    """Cards as they are decoded: in order of index, UUIDs once."""
    some = st.lists(st.builds(Card, **fields), min_size=1, max_size=5, unique_by=lambda c: c.uuid)
    return some.map(lambda found: tuple(sorted(found, key=lambda card: card.index)))


@FEW
@given(cards(with_profiles))
def test_json_round_trip(found: tuple[Card, ...]) -> None:
    """What is written is read back."""
    assert decode(encode_json(found), NVIDIA) == found


@FEW
@given(cards(plain))
def test_colon_round_trip(found: tuple[Card, ...]) -> None:
    """In nine fields."""
    assert decode(encode_colon(found), NVIDIA) == found


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
entries = st.dictionaries(
    st.sampled_from([*A10, "index", "numa", "health", "migProfiles"]), json_values
)
alphabet = st.text(st.sampled_from('g1,:;-[]{}" tru'))


@FEW
@given(st.text() | alphabet | st.lists(entries).map(json.dumps) | json_values.map(json.dumps))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Nothing else is raised, for any vendor's form."""
    for vendor in (NVIDIA, HYGON, METAX_SHARED):
        try:
            for card in decode(text, vendor):
                assert card.uuid
                assert card.memory_mib >= 0
        except UndecodableError:
            pass
    for read in (decode_links, decode_cordon):
        try:
            read(text)
        except UndecodableError:
            continue


@pytest.mark.parametrize(
    ("items", "links"),
    [
        ([], {}),
        (
            [{"uuid": "a", "score": {"b": 600}}, {"uuid": "b", "score": {"a": 600}}],
            {("a", "b"): 600, ("b", "a"): 600},
        ),
        ([{"uuid": "a", "score": {"b": 600}}], {("a", "b"): 600, ("b", "a"): 600}),
        ([{"uuid": "a", "score": {"b": 600}}, {"uuid": "b", "score": {"a": 10}}], {}),
        ([{"uuid": "a", "score": {"b": 600}}, {"uuid": "b", "score": {"a": 0}}], {}),
        ([{"uuid": "a", "score": {"a": 600, "b": 0}}, {"uuid": "b"}], {}),
        (
            [{"uuid": "a", "score": {"b": -5}}, {"uuid": "b", "score": {"a": -5}}],
            {("a", "b"): -5, ("b", "a"): -5},
        ),
    ],
    ids=["none", "both", "one tells", "asymmetric", "zero", "itself", "negative"],
)
def test_pair_scores(items: list[Any], links: dict[tuple[str, str], int]) -> None:
    """A pair that its cards score differently has no score."""
    assert decode_links(json.dumps(items)) == links
    assert decode_links(encode_links(links)) == links


@pytest.mark.parametrize("text", ["{}", "[1]", '[{"uuid":1}]', '[{"uuid":"a","score":[1]}]'])
def test_bad_pair_scores(text: str) -> None:
    """They are refused with what is wrong."""
    with pytest.raises(UndecodableError):
        decode_links(text)


def test_cordon() -> None:
    """A comma list; blanks and stray commas are nothing."""
    assert decode_cordon(" GPU-1, ,GPU-2,") == {"GPU-1", "GPU-2"}
    assert decode_cordon("") == frozenset()
