"""CEL expressions over devices: what they mean, and that hostile ones are refused."""

from __future__ import annotations

import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.core.devices.claims.cel import CelError, CelSyntaxError, Selector
from federation.core.devices.claims.claims import Capacity, Device, Version

DOMAIN = "gpu.example.com"
CARD = Device(
    DOMAIN,
    "node-1",
    "gpu-0",
    attributes={
        f"{DOMAIN}/type": "hami-gpu",
        f"{DOMAIN}/uuid": "GPU-11aa",
        f"{DOMAIN}/minor": 3,
        f"{DOMAIN}/mig": False,
        f"{DOMAIN}/driverVersion": Version(550, 54, 15),
        "other.example.com/rack": "r1",
    },
    capacity={f"{DOMAIN}/memory": Capacity(Fraction(80 * 2**30))},
    shared=True,
)

TRUE = [
    "true",
    "device.driver == 'gpu.example.com'",
    'device.attributes["gpu.example.com"].type == "hami-gpu"',
    "device.attributes['other.example.com'].rack == 'r1'",
    "device.attributes['gpu.example.com'].minor >= 3 && !device.attributes['gpu.example.com'].mig",
    "device.allowMultipleAllocations",
    'device.capacity["gpu.example.com"].memory.compareTo(quantity("80Gi")) == 0',
    'device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("40Gi"))',
    "device.attributes['gpu.example.com'].driverVersion.isGreaterThan(semver('550.0.0'))",
    "semver('1.0.0-rc.1').isLessThan(semver('1.0.0')) && semver('1.2.0').minor() == 2",
    "device.attributes['gpu.example.com'].uuid in ['GPU-11aa', \"GPU-22bb\"]",
    "['a', 'b'].exists(x, x == 'b') && [1, 2].all(n, n > 0) && [1, 2, 3].exists_one(n, n == 2)",
    "[1, 2, 3].filter(n, n > 1).map(n, n * 2) == [4, 6] && size([1]) == 1",
    "has(device.attributes['gpu.example.com'].uuid)",
    "!has(device.attributes['gpu.example.com'].x)",
    "!has(device.attributes['nobody'].x)",
    "device.attributes['gpu.example.com'].?x.orValue('none') == 'none'",
    "device.attributes['gpu.example.com'][?'minor'].hasValue()",
    "cel.bind(d, device.attributes['gpu.example.com'], d.type.startsWith('hami') && d.minor == 3)",
    "'NVIDIA A100'.lowerAscii().contains('a100') && 'abc'.endsWith('c')",
    "'NVIDIA A100-SXM4-80GB'.matches('^NVIDIA A100.*80GB$')",
    "1 + 2 * 3 == 7 && 7 / 2 == 3 && -7 / 2 == -3 && -7 % 2 == -1 && 0x10 == 16",
    "(1 < 2 ? 'a' : 'b') == 'a'",
    "'domain' in {'domain': 1} && {'k': [1]}['k'][0] == 1",
    "'a\\tb\\x41\\u0042' == 'a\tbAB' && r'\\d' == '\\\\d'",
    "device.attributes['gpu.example.com'].missing == 1 || true",
    "true || device.attributes['gpu.example.com'].missing == 1",
    "!(device.attributes['gpu.example.com'].missing == 1 && false)",
    "1 == 1.0 && !(true == 1) && null == null // a comment",
    "quantity('1Gi').add(quantity('1Gi')) == quantity('2Gi')",
    "isQuantity('5') && !isQuantity('x')",
]  # fmt: skip

NO_VALUE = [
    "device.attributes['gpu.example.com'].missing == 1",
    "device.attributes['nobody'].x == 'y'",
    "device.driver",
    "device.driver < 3",
    "device.attributes['gpu.example.com'].missing == 1 || false",
    "1 / 0 == 1",
    "9223372036854775807 + 1 > 0",
    "quantity('many').sign() == 1",
    "quantity('1') < quantity('2')",
    "semver('1').major() == 1",
    "[1][1] == 1",
    "!3",
    "'x' ? true : false",
    "'a'.compareTo('b') == 0",
]

NO_CEL = {
    "": "unexpected the end",
    "device.driver ==": "unexpected the end",
    "device.driver = 'a'": "unexpected",
    "a.b": "a is not known here",
    "device.driver.frobnicate()": "frobnicate() is not known",
    "frobnicate()": "frobnicate() is not known",
    "quantity()": "does not take 0 arguments",
    "'open": "unexpected",
    "'\\q'": "no escape",
    "'\\ud800'": "no character",
    "(" * 500 + "1" + ")" * 500: "nested deeper",
    "1" * 400: "too large",
    "x" * 20_000: "20000 characters",
    "has(device)": "takes a field",
}


@pytest.mark.parametrize("text", TRUE)
def test_holds(text: str) -> None:
    assert Selector(text).matches(CARD)


@pytest.mark.parametrize("text", NO_VALUE)
def test_has_no_value_for_the_device(text: str) -> None:
    with pytest.raises(CelError):
        Selector(text).matches(CARD)


@pytest.mark.parametrize("text", NO_CEL)
def test_is_refused_when_it_is_read(text: str) -> None:
    with pytest.raises(CelSyntaxError) as found:
        Selector(text)
    assert NO_CEL[text] in str(found.value)


@pytest.mark.parametrize(
    "text",
    [
        "'" + "a" * 60 + "'.matches('(a+)+b')",
        "'" + "a" * 60 + "'.matches('a*a*a*a*a*a*b')",
        "[1,2,3,4,5,6,7,8].all(a, [1,2,3,4,5,6,7,8].all(b, [1,2,3,4,5,6,7,8].all(c,"
        " [1,2,3,4,5,6,7,8].all(d, [1,2,3,4,5,6,7,8].all(e, a + b + c + d + e > 0)))))",
        "cel.bind(a, 'xxxxxxxxxxxxxxxx', "
        * 2
        + "cel.bind(b, a+a+a+a+a+a+a+a+a+a, cel.bind(c, b+b+b+b+b+b+b+b+b+b,"
        " cel.bind(d, c+c+c+c+c+c+c+c+c+c, size(d+d+d+d+d+d+d+d+d+d) > 0)))))",
        f"'{'a' * 4000}'.replace('', '{'b' * 4000}') == ''",
    ],
    ids=["nested repetition", "many repetitions", "nested macros", "doubling", "replacing"],
)
def test_what_would_take_for_ever_ends_soon(text: str) -> None:
    began = time.monotonic()
    with pytest.raises(CelError):
        Selector(text).matches(CARD)
    assert time.monotonic() - began < 2


def test_long_chains_are_no_deep_recursion() -> None:
    assert Selector("||".join(["false"] * 1400) + "||true").matches(CARD)
    assert Selector("!" * 4000 + "true").matches(CARD)
    assert Selector("+".join(["1"] * 3000) + "==3000").matches(CARD)


WORDS = "device . driver ( ) [ ] 'a' 1 1.5 && || ! - == < in ? : , { } quantity has size all x + '"
PIECES = st.sampled_from([*WORDS.split(), "true", "\\"])


@given(st.lists(PIECES, max_size=25).map(" ".join) | st.text(max_size=60))
def test_any_text_is_a_boolean_or_one_of_two_errors(text: str) -> None:
    try:
        found = Selector(text).matches(CARD)
    except (CelError, CelSyntaxError):
        return
    assert found in (True, False)
