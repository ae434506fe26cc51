"""A store of objects: lost answers, stores that do not keep conditions, signatures."""

from __future__ import annotations

from pathlib import Path

import pytest

from federation.checkpoint_token import (
    ConditionsIgnoredError,
    RefusedError,
    State,
    StoreError,
    Token,
    open_store,
)
from federation.checkpoint_token.objects import ObjectStore
from federation.checkpoint_token.signing import Credentials, Request, signed
from tests.fakes.object_server import ObjectServer


def token(server: ObjectServer, attempt: int) -> Token:
    return Token(open_store(f"{server.url}/bucket", "job", attempt, {}), attempt)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("federation.checkpoint_token.objects.time.sleep", lambda seconds: None)


@pytest.mark.parametrize("header", ["If-None-Match", "If-Match"])
def test_a_store_that_ignores_conditions_is_found_out(server: ObjectServer, header: str) -> None:
    """Before anything is stored there."""
    server.ignores = {header}

    with pytest.raises(ConditionsIgnoredError, match=header):
        token(server, 1).claim()
    assert "/bucket/job/token" not in server.objects


def lose_first_puts(server: ObjectServer) -> None:
    """The first PUT of each object is carried out, and its answer is lost."""
    lost: list[str] = []

    def lose(method: str, path: str) -> bool:
        first = method == "PUT" and path not in lost
        lost.append(path)
        return first

    server.lose = lose


def test_a_claim_whose_answer_is_lost_is_made_once(server: ObjectServer) -> None:
    """The next look shows that it was done."""
    lose_first_puts(server)
    assert token(server, 2).claim() == State(2)
    assert token(server, 2).state() == State(2)


def test_a_commit_whose_answer_is_lost_is_found_to_be_done(
    server: ObjectServer, tmp_path: Path
) -> None:
    """And is not taken for somebody else's."""
    source = tmp_path / "model"
    source.write_text("weights")
    one = token(server, 1)
    one.claim()
    lose_first_puts(server)
    made = one.put("model", source)

    assert one.state().commits == {"model": made}
    assert one.get("model", tmp_path / "fetched") == made


def test_a_lost_answer_is_made_out_also_when_a_later_attempt_follows(server: ObjectServer) -> None:
    """It was stored before the token was claimed, and the later attempt finds it."""
    old, new = token(server, 1), token(server, 2)
    old.claim()

    def lose(method: str, path: str) -> bool:
        if method == "PUT" and path.endswith("/token"):
            server.lose = lambda method, path: False
            new.claim()
            return True
        return False

    server.lose = lose
    made = old.commit("model", "x")

    assert new.state() == State(2, {"model": made})
    with pytest.raises(RefusedError):
        old.commit("model", "y")


@pytest.mark.parametrize("status", [409, 429, 500, 503])
def test_a_store_that_is_overloaded_is_asked_again(server: ObjectServer, status: int) -> None:
    """Some times."""
    server.answers = [status, status]
    assert token(server, 1).claim() == State(1)
    server.answers = [status] * 99
    with pytest.raises(StoreError, match=str(status)):
        token(server, 1).claim()


@pytest.mark.parametrize("status", [400, 403])
def test_a_refusal_of_the_store_is_told(server: ObjectServer, status: int) -> None:
    """At once, with what it says."""
    server.answers = [status]

    with pytest.raises(StoreError, match=f"{status} .*later"):
        token(server, 1).claim()


def test_nobody_there_is_told() -> None:
    """With the address."""
    with pytest.raises(StoreError, match=r"http://127\.0\.0\.1:9/"):
        Token(ObjectStore("http://127.0.0.1:9/b/job", 1), 1).state()


def test_requests_are_signed_where_there_are_keys(server: ObjectServer) -> None:
    """With the usual variables; the endpoint may be one's own."""
    env = {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_SESSION_TOKEN": "session",
        "AWS_REGION": "eu-1",
        "AWS_ENDPOINT_URL": server.url,
    }
    Token(open_store("s3://bucket/a b", "job", 1, env), 1).claim()
    method, path, headers = server.log[0]
    found = {key.lower(): value for key, value in headers.items()}

    assert (method, path) == ("PUT", "/bucket/a%20b/job/probe")
    assert "Credential=key/" in found["authorization"]
    assert "/eu-1/s3/aws4_request" in found["authorization"]
    assert found["x-amz-security-token"] == "session"
    signed_names = found["authorization"].partition("SignedHeaders=")[2].partition(",")[0]
    assert set(signed_names.split(";")) <= set(found)
    assert "if-none-match" in signed_names


EXAMPLE = Credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.mark.parametrize(
    ("method", "path", "payload", "headers", "signature"),
    [
        (
            "GET", "/test.txt", EMPTY, {"Range": "bytes=0-9"},
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
        (
            "PUT", "/test$file.text",
            "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
            {"Date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY"},
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        ),
    ],
)  # fmt: skip
def test_signatures_are_those_of_the_published_examples(
    method: str, path: str, payload: str, headers: dict[str, str], signature: str
) -> None:
    """Of the S3 API reference, "Authenticating Requests: Using the Authorization Header"."""
    request = Request(method, "examplebucket.s3.amazonaws.com", path, payload, headers)
    found = signed(request, EXAMPLE, "20130524T000000Z")

    assert found["authorization"].endswith(f"Signature={signature}")
