"""What Redis (or Valkey) says when it fails, in a person's words: what, why, what to do.

`IndexLost` when the data is gone or is not ours: it is filled again at once. `IndexUnavailable`
for all else: nothing is known to be lost, and somebody may have to do something.
"""

from __future__ import annotations

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from federation.core.queueing import IndexLost, IndexUnavailable

_ANSWERS: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (
        ("OOM", "maxmemory"),
        "is full",
        "raise its maxmemory, or move what else is in it: it has to hold all that waits",
    ),
    (
        ("READONLY", "read only replica", "NOREPLICAS"),
        "takes no writes",
        "REDIS_URL has to lead to the primary, and that to its replicas if it insists on them",
    ),
    (
        ("MISCONF", "AOF", "RDB"),
        "cannot write to its disk",
        "give it room; or set `appendonly no` and `save ''`: the queue needs no persistence",
    ),
    (("LOADING", "loading the dataset"), "is reading its file", "nothing: it answers soon"),
    (
        ("MASTERDOWN", "Link with MASTER"),
        "is a replica that has lost its primary",
        "REDIS_URL has to lead to the primary",
    ),
    (
        ("NOAUTH", "WRONGPASS", "Authentication required", "username-password", "AUTH"),
        "does not accept the credentials",
        "correct user and password in REDIS_URL",
    ),
    (
        ("NOPERM", "no permissions"),
        "does not allow what the queue needs",
        "give the user of REDIS_URL all commands on keys that begin with `{fedq:`, and FUNCTION",
    ),
    (
        ("SSL", "CERTIFICATE", "certificate"),
        "cannot be trusted: TLS failed",
        "rediss:// is for a server with TLS; ssl_ca_certs in REDIS_URL names its CA",
    ),
    (("BUSY ",), "is busy with somebody's script", "end that script: SCRIPT KILL, FUNCTION KILL"),
    (
        ("unknown command", "Unknown subcommand"),
        "is too old",
        "use Redis 7 or Valkey: the queue needs server-side functions",
    ),
)
"""Words of an error, what that means, what to do. The first that is found counts."""

_GONE = ("LOST ", "Function not found")


def translated(error: RedisError, server: str) -> IndexLost | IndexUnavailable:
    """The error of the index for one of the client. `server` says where Redis is."""
    said = str(error).rstrip(".")
    if "LOST " in said:
        return IndexLost(f"the index in Redis at {server} is lost: {said.partition('LOST ')[2]}")
    if "Function not found" in said:
        return IndexLost(f"the index in Redis at {server} is lost: its functions are gone")
    chain = " ".join(map(str, (said, error.__cause__ or "", error.__context__ or "")))
    for words, what, todo in _ANSWERS:
        if any(word in chain for word in words):
            return IndexUnavailable(f"Redis at {server} {what}: {said}. To do: {todo}")
    if isinstance(error, RedisTimeoutError):
        return IndexUnavailable(
            f"Redis at {server} does not answer in time: {said}."
            " To do: look whether it is overloaded, stopped or cut off, and whether it speaks TLS"
            " where REDIS_URL begins with rediss://"
        )
    if isinstance(error, RedisConnectionError):
        return IndexUnavailable(
            f"Redis at {server} cannot be reached: {said}. To do: start it, or correct"
            " REDIS_URL (rediss:// if it speaks TLS)"
        )
    return IndexUnavailable(f"Redis at {server} refused: {said}. To do: see its log")
