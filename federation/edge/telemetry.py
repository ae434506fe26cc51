"""What a program sets up once: logs (JSON lines, colours on a terminal) and the collector."""

from __future__ import annotations

import gc
import logging
import sys

import structlog

# Without the variables of the frames: tokens and kubeconfigs are among them.
_tracebacks = structlog.processors.ExceptionRenderer(
    structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
)


def configure_logging(level: str) -> None:
    """Set up structlog for a program; called once, by its main."""
    renderer: structlog.types.Processor = (
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
        if sys.stderr.isatty()
        else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            _tracebacks if not sys.stderr.isatty() else structlog.processors.StackInfoRenderer(),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def settle_memory() -> None:
    """Make garbage collection rare: our objects are trees, freed by counting references.

    What start-up made is not looked at again; decoding many small dicts would otherwise spend
    most of its time in collections that find nothing.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 50)
