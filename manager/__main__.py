"""`python -m manager`: read the settings, be a replica of the manager until told to stop.

`--config FILE` names a Configuration in the format of Kueue's manager.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from pydantic import ValidationError

from federation.api.configuration import to_access_providers, to_policies
from federation.edge.configuration_file import (
    ConfigurationFileError,
    configuration,
    configured_kinds,
)
from federation.edge.environment import complaint
from federation.edge.services import run_program
from federation.edge.telemetry import configure_logging
from federation.edge.web import app, serve
from manager.kubeconfigs import Sources
from manager.reading_api import Reading
from manager.replica import Replica
from manager.settings import ManagerSettings


async def _run(replica: Replica, settings: ManagerSettings) -> None:
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(replica.run())
        pages = app(replica.problem, replica.status, replica.waiting, replica.note)
        served = [tasks.create_task(serve(pages, settings.listen))]
        if settings.read_listen:
            reading = Reading(replica.reader).app()
            tls = settings.reading_tls()
            served.append(tasks.create_task(serve(reading, settings.read_listen, tls)))
        running.add_done_callback(lambda ended: [web.cancel() for web in served])
        _stop_on_signal(running, *served)


def _stop_on_signal(*tasks: asyncio.Task[None]) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, lambda: [task.cancel() for task in tasks])


def main() -> int:
    """Exit code 0 after a signal, 1 when the manager cannot go on or another one leads, 2 for a bad
    configuration.
    """
    parser = argparse.ArgumentParser(prog="manager", description="The manager of the federation.")
    parser.add_argument("--config", type=Path, metavar="FILE", help="a Configuration (YAML)")
    arguments = parser.parse_args()
    try:
        settings = ManagerSettings()
        configure_logging(settings.log_level)
        found = configuration(arguments.config)
        sources = Sources(settings.kubeconfig_dir, to_access_providers(found))
        kinds = configured_kinds(arguments.config)
        replica = Replica(settings, to_policies(found), settings.timings(), sources, kinds)
        settings.election()
        settings.offers()
        settings.reading_tls()
    except ValidationError as error:
        text = f"the manager cannot use these settings in its environment: {complaint(error)}"
        print(text, file=sys.stderr)  # noqa: T201  (a person reads it)
        return 2
    except (ConfigurationFileError, ValueError) as error:
        print(error, file=sys.stderr)  # noqa: T201  (a person reads it)
        return 2
    code = run_program(_run(replica, settings), "manager")
    return code or int(replica.lost)


if __name__ == "__main__":
    sys.exit(main())
