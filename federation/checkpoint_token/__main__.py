"""`python -m federation.checkpoint_token`: claim, put, get, commit, show; for use in a job.

Exit codes: 0 done; 1 the store cannot be used; 2 wrong use; 3 refused: another attempt counts, this
one should stop; 4 nothing was committed under that name.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from federation.checkpoint_token.errors import RefusedError, StoreError
from federation.checkpoint_token.opening import open_store
from federation.checkpoint_token.token import Commit, State, Token

FAILED, USAGE, REFUSED, NOTHING = 1, 2, 3, 4


def main(given: Sequence[str] | None = None) -> int:
    """See the module."""
    parser = _parser()
    arguments = parser.parse_args(given)
    for name, variable in (("job", "FEDQ_JOB_UID"), ("attempt", "FEDQ_ATTEMPT")):
        if not getattr(arguments, name):
            parser.error(f"--{name} is needed: {variable} is not set, so this is no pod of a job")
    if not arguments.store:
        parser.error("--store is needed: FEDQ_CHECKPOINTS is not set")
    try:
        attempt = int(arguments.attempt)
        token = Token(open_store(arguments.store, arguments.job, attempt), attempt)
    except (ValueError, StoreError) as error:
        parser.error(str(error))
    try:
        return _run(token, arguments)
    except RefusedError as error:
        _say(f"refused: {error}")
        return REFUSED
    except (StoreError, OSError) as error:
        _say(f"not stored: {error}" if arguments.do != "get" else str(error))
        return FAILED


def _run(token: Token, arguments: argparse.Namespace) -> int:
    if arguments.do == "claim":
        _show(token.claim())
    elif arguments.do == "put":
        _tell(arguments.name, token.put(arguments.name, arguments.file, first=arguments.first))
    elif arguments.do == "commit":
        made = token.commit(arguments.name, arguments.location, first=arguments.first)
        _tell(arguments.name, made)
    elif arguments.do == "show":
        _show(token.state())
    else:
        found = token.get(arguments.name, arguments.file)
        if found is None:
            _say(f"nothing was committed as {arguments.name!r}")
            return NOTHING
        _tell(arguments.name, found)
    return 0


def _show(state: State) -> None:
    sys.stdout.write(state.text().decode() + "\n")


def _tell(name: str, commit: Commit) -> None:
    sys.stdout.write(f"{name}\tattempt {commit.attempt}\t{commit.location}\n")


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m federation.checkpoint_token",
        description="Checkpoints and results that only the newest attempt of a job can store.",
        epilog=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    env = os.environ.get
    parser.add_argument("--store", default=env("FEDQ_CHECKPOINTS"), help="folder, s3:// or http(s)")
    parser.add_argument("--job", default=env("FEDQ_JOB_UID"), help="UID; default: FEDQ_JOB_UID")
    parser.add_argument("--attempt", default=env("FEDQ_ATTEMPT"), help="default: FEDQ_ATTEMPT")
    verbs = parser.add_subparsers(dest="do", required=True, metavar="claim|put|get|commit|show")
    verbs.add_parser("claim", help="make this attempt the one that counts; first thing in a job")
    verbs.add_parser("show", help="which attempt counts, and what was committed (JSON)")
    put = verbs.add_parser("put", help="store a file and commit it under a name")
    get = verbs.add_parser("get", help="fetch what was committed under a name")
    commit = verbs.add_parser("commit", help="commit what was stored by other means")
    for verb in (put, get, commit):
        verb.add_argument("name")
    for verb in (put, get):
        verb.add_argument("file", type=Path)
    commit.add_argument("location", help="where it is; written nowhere but into the token")
    for verb in (put, commit):
        verb.add_argument(
            "--first", action="store_true", help="the first attempt wins, not the newest"
        )
    return parser


if __name__ == "__main__":
    sys.exit(main())
