"""What a person did wrong or cannot do now, and what to do about it: no traceback for any of it.

`explained` wraps every command. It knows the errors of the layers below (rig, API client) and
puts them into the same three parts: what happened, why, what to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from federation.edge import errors as api
from fedq.rig.errors import RigError

FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130


class CommandError(Exception):
    """A command cannot go on.

    Attributes:
        what: what happened, one sentence.
        why: the cause, or what was found.
        todo: the next step, as a command where there is one.
        code: exit code of the command.
    """

    def __init__(self, what: str, why: str = "", todo: str = "", *, code: int = FAILED) -> None:
        super().__init__(what, why, todo)
        self.what, self.why, self.todo, self.code = what, why, todo, code

    def __str__(self) -> str:
        return "\n".join(part for part in (self.what, self.why, self.todo) if part)


@contextmanager
def explained() -> Iterator[None]:
    """Turn the errors a person can act on into text on standard error and an exit code."""
    try:
        yield
    except CommandError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(error.code) from error
    except RigError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(FAILED) from error
    except api.ApiError as error:
        typer.echo(f"error: {from_api(error)}", err=True)
        raise typer.Exit(FAILED) from error
    except BrokenPipeError:
        raise  # `fedq … | head`: click ends quietly
    except OSError as error:
        typer.echo(f"error: {from_system(error)}", err=True)
        raise typer.Exit(FAILED) from error
    except KeyboardInterrupt as error:
        typer.echo("interrupted", err=True)
        raise typer.Exit(INTERRUPTED) from error


def from_system(error: OSError) -> CommandError:
    """A folder that cannot be written, a full disk, no more processes."""
    what = f"{error.filename} cannot be used" if error.filename else "the system refused a step"
    return CommandError(
        what,
        error.strerror or str(error),
        "Files go to your home folder: FEDQ_RIG_HOME (the rig) and XDG_CACHE_HOME (its programs)"
        " choose other folders.",
    )


def from_api(error: api.ApiError) -> CommandError:
    """The same failure in a person's words."""
    if isinstance(error, api.NotFound) and "page not found" in str(error):
        return CommandError(
            "this cluster does not serve Fedq's objects",
            str(error),
            "Is it the management cluster (--kubeconfig, --context)? Its objects come with"
            " `kubectl apply --server-side -k deploy/kustomize/management`.",
        )
    for kind, what, todo in _ANSWERS:
        if isinstance(error, kind):
            return CommandError(what, str(error), todo)
    return CommandError("the API server refused the request", str(error))


_ANSWERS: tuple[tuple[type[api.ApiError], str, str], ...] = (
    (
        api.ConfigError,
        "the kubeconfig cannot be used",
        "Name another one with --kubeconfig and --context, or start a local rig: `fedq rig up`.",
    ),
    (
        api.Unreachable,
        "the management cluster cannot be reached",
        "Is it up? `fedq rig status` shows the local rig; --kubeconfig and --context choose"
        " another cluster.",
    ),
    (
        api.Unauthorized,
        "the management cluster does not accept these credentials",
        "Renew the token or certificate in the kubeconfig, or name another with --kubeconfig.",
    ),
    (
        api.Forbidden,
        "this user may not do that, or an admission policy refuses it",
        "Ask for the role, or change the object as the message says.",
    ),
    (api.NotFound, "there is no such object or namespace", "Check the name and -n NAMESPACE."),
    (api.TooManyRequests, "the API server is overloaded", "Try again in a while."),
    (api.ServerError, "the API server failed", "Try again; its log says more."),
)
