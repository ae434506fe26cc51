"""`python -m manager`: read the settings, connect everything, run until told to stop.

`--config FILE` names a Configuration in the format of Kueue's manager.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
from pathlib import Path

import structlog

from federation.core.failover import Timings
from federation.core.policies import Policies
from federation.edge.configuration_file import ConfigurationFileError, configured
from federation.edge.embedded_redis import embedded_redis
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import load_endpoint
from federation.edge.redis_index import RedisIndex
from federation.edge.services import exit_soon, run_program
from federation.edge.telemetry import configure_logging, settle_memory
from federation.edge.web import app, serve
from manager.app import Manager, ensure_origin
from manager.local_runtime import LocalRuntime
from manager.protocol import Runtime, WorkerUnavailable
from manager.settings import ManagerSettings

log = structlog.get_logger(__name__)


def start_runtime(settings: ManagerSettings) -> Runtime:
    """Ray where it can be had, else this process; which one is said in the log and in /status."""
    if settings.runtime == "in-process":
        return LocalRuntime()
    try:
        from manager.ray_runtime import RayRuntime

        return RayRuntime(settings.ray_address, str(settings.state_dir / "ray"))
    except (ImportError, WorkerUnavailable) as error:
        log.error("ray.unavailable", why=str(error), instead="cluster workers in this process")
        return LocalRuntime()


async def _run(settings: ManagerSettings, policies: Policies, timings: Timings) -> None:
    runtime = await asyncio.to_thread(start_runtime, settings)
    endpoint = load_endpoint(settings.kubeconfig, settings.context)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(runtime.aclose)
        url = settings.redis_url or stack.enter_context(embedded_redis(settings.state_dir))
        client = await stack.enter_async_context(KubeClient(endpoint, user_agent="fedq-manager"))
        origin = await ensure_origin(client)
        index = RedisIndex(url, shard=f"{origin[:8]}:0")
        stack.push_async_callback(index.aclose)
        manager = Manager(client, index, runtime, origin, policies, timings)
        manager.on_crash = exit_soon
        settle_memory()
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(manager.run())
            pages = app(manager.problem, manager.status, manager.waiting)
            web = tasks.create_task(serve(pages, settings.listen))
            _stop_on_signal(running, web)


def _stop_on_signal(*tasks: asyncio.Task[None]) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, lambda: [task.cancel() for task in tasks])


def main() -> int:
    """Exit code 0 after a signal, 1 when the manager cannot go on, 2 for a bad configuration."""
    parser = argparse.ArgumentParser(prog="manager", description="The manager of the federation.")
    parser.add_argument("--config", type=Path, metavar="FILE", help="a Configuration (YAML)")
    arguments = parser.parse_args()
    settings = ManagerSettings()
    configure_logging(settings.log_level)
    try:
        policies = configured(arguments.config)
        timings = settings.timings()
    except (ConfigurationFileError, ValueError) as error:
        print(error, file=sys.stderr)  # noqa: T201  (a person reads it)
        return 2
    return run_program(_run(settings, policies, timings), "manager")


if __name__ == "__main__":
    sys.exit(main())
