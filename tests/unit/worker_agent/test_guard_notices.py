"""What a guard hears of the lease: from the agent's file, and from the agent."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from federation.core.holding import Lease, Terms
from federation.edge.machine import boot_id, boottime
from fedq.rig.pki import Authority
from worker_agent.deadline_file import DeadlineFile
from worker_agent.guard.decision import Notice
from worker_agent.guard.notices import Note, NoticeError
from worker_agent.guard.pull import Pull, told


def test_the_file_of_the_agent_is_understood(tmp_path: Path) -> None:
    """As the agent writes it."""
    path = tmp_path / "deadline"
    lease = Lease().renewal(100.0, 3, Terms(renew=5, lease=30, kill=45))
    DeadlineFile(path, "w", boot_id()).write(lease)
    notice = Note(path, "w").read()

    assert (notice.renewed, notice.deadline) == (100.0, 130.0)


GOOD = {"bootId": "b", "cluster": "w", "renewed": 1.0, "deadline": 31.0, "kill": 20}


def test_k_may_stand_in_the_file(tmp_path: Path) -> None:
    """Then the guard goes by it."""
    path = tmp_path / "deadline"
    path.write_text(json.dumps(GOOD))

    assert Note(path, "w", "b").read() == Notice(1.0, 31.0, 20.0)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (None, NoticeError),
        ("", NoticeError),
        ("[]", NoticeError),
        ('"x"', NoticeError),
        (json.dumps({**GOOD, "renewed": None}), NoticeError),
        (json.dumps({**GOOD, "deadline": 10**400}), NoticeError),
        ("[" * 100_000, NoticeError),
        (json.dumps({**GOOD, "cluster": "other"}), NoticeError),
        (json.dumps({**GOOD, "bootId": "other"}), NoticeError),
        (json.dumps({key: value for key, value in GOOD.items() if key != "deadline"}), NoticeError),
    ],
)
def test_a_file_that_says_nothing_of_use_is_refused(
    tmp_path: Path, text: str | None, error: type[NoticeError]
) -> None:
    """With the reason."""
    path = tmp_path / "deadline"
    if text is not None:
        path.write_text(text)

    with pytest.raises(error, match="deadline"):
        Note(path, "w", "b").read()


def test_an_answer_counts_from_before_the_question() -> None:
    """A little less, for the other clock may be slower, and the number may be rounded up."""
    notice = told({"endsInSeconds": 100.0, "renewedSecondsAgo": 20.0, "killSeconds": 45}, 1000, 120)

    assert 1099.5 < notice.deadline < 1100
    assert (notice.renewed, notice.kill) == (980.0, 45.0)


def test_an_answer_may_be_part_of_a_status_page() -> None:
    """When it was renewed is then worked out from the length of the lease."""
    notice = told({"lease": {"endsInSeconds": 100.0}}, 1000, 120)

    assert notice.renewed == pytest.approx(980, abs=0.5)


def test_a_lease_that_is_over_stays_over() -> None:
    """Asking again does not make it end later."""
    first = told({"endsInSeconds": -10.0}, 1000, 120)
    again = told({"endsInSeconds": -30.0}, 1020, 120)

    assert first.deadline == again.deadline < 990


@pytest.mark.parametrize("body", [None, [], {}, {"endsInSeconds": None}, {"endsInSeconds": "x"}])
def test_an_answer_without_a_time_is_refused(body: Any) -> None:
    """An agent that does not know when its lease ends extends nothing."""
    with pytest.raises(NoticeError, match="for how long"):
        told(body, 1000, 120)


class Agent(HTTPServer):
    """Answers every request with `text`."""

    text = json.dumps({"lease": {"endsInSeconds": 100.0}})

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up are part of the test."""


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Agent)
        body = self.server.text.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def agent() -> Iterator[Agent]:
    server = Agent()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_agent_is_asked(agent: Agent) -> None:
    """And what it said stays when it answers no more, or nonsense."""
    pull = Pull(f"http://127.0.0.1:{agent.server_port}/status")
    before = boottime()
    pull.ask()
    heard = pull.notice
    assert heard is not None
    assert before + 99 < heard.deadline < boottime() + 100
    assert pull.problem == ""

    for nonsense in ("{}", "no json", '{"endsInSeconds": null}'):
        agent.text = nonsense
        pull.ask()
        assert pull.notice == heard
        assert pull.problem


def test_nobody_at_the_address_is_a_problem() -> None:
    """Told, and nothing else."""
    pull = Pull("http://127.0.0.1:9/status", timeout=0.5)
    pull.ask()

    assert pull.notice is None
    assert "127.0.0.1:9" in pull.problem


def test_with_https_the_agent_has_to_prove_who_it_is(agent: Agent, tmp_path: Path) -> None:
    """Whoever could answer in its place could keep runs alive for ever."""
    authority, stranger = Authority(tmp_path / "ours"), Authority(tmp_path / "others")
    authority.server(tmp_path / "server.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem")
    agent.socket = context.wrap_socket(agent.socket, server_side=True)
    url = f"https://127.0.0.1:{agent.server_port}/status"
    trusted = Pull(url, ca=authority.certificate_file)
    trusted.ask()
    assert trusted.problem == ""
    assert trusted.notice is not None
    for ca in (stranger.certificate_file, None, tmp_path / "missing"):
        fooled = Pull(url, ca=ca)
        fooled.ask()

        assert fooled.notice is None
        assert fooled.problem
