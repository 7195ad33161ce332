"""The life of a service process: signals, drain deadline, exit status.

Must not build or know the service. Order on SIGTERM: the stop event is set, and `main` becomes unready, stops
accepting, finishes what runs, releases its Lease and returns; what has not ended within the deadline is cancelled.
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable

from appkit.background import BackgroundFailed
from appkit.errors import DriverError
from appkit.logs import get_logger, mask
from appkit.settings import SettingsError

EXIT_OK = 0
EXIT_ERROR = 1
EXIT_SETTINGS = 2

# Kubernetes kills 30 s after SIGTERM unless told otherwise; what is left is for the last cancellation.
DRAIN_S = 25.0
_CANCEL_S = 3.0

_log = get_logger(__name__)


def run_service(main: Callable[[asyncio.Event], Awaitable[None]], *, drain_s: float = DRAIN_S) -> int:
    """Run `main(stop)` to its end in a new event loop and return the process's exit status.

    0: returned; 1: raised, or not finished `drain_s` seconds after the first SIGTERM or SIGINT; 2: raised
    SettingsError, which is printed as a list without a traceback. A second signal ends the process on the spot with
    status 1.
    Settings are best loaded inside `main`, so that their errors end here.
    """
    try:
        return asyncio.run(_run(main, drain_s))
    except SettingsError as error:
        lines = "".join(f"  - {problem}\n" for problem in error.problems)
        sys.stderr.write(mask(f"the settings are wrong:\n{lines}"))
        return EXIT_SETTINGS


async def _run(main: Callable[[asyncio.Event], Awaitable[None]], drain_s: float) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _on_signal, stop, number)
    body = asyncio.ensure_future(main(stop))
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait({body, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not body.done():
        await asyncio.wait({body}, timeout=drain_s)
    if not body.done():
        _log.error("not finished within the drain deadline; cancelled", extra={"drain_s": drain_s})
        body.cancel()
        await asyncio.wait({body}, timeout=_CANCEL_S)
        if not body.done():
            _log.error("does not react to cancellation; left behind")
            _leave(EXIT_ERROR)
        with contextlib.suppress(asyncio.CancelledError, Exception):
            body.result()
        return EXIT_ERROR
    return _outcome(body)


def _outcome(body: asyncio.Future[None]) -> int:
    try:
        body.result()
    except SettingsError:
        raise
    except BackgroundFailed as error:
        # Its own line, with the traceback, was written when the task ended.
        _log.error("stopped: %s", error)
        return EXIT_ERROR
    except (DriverError, OSError) as error:
        _log.error("stopped: %s", error, exc_info=_log.isEnabledFor(logging.DEBUG))
        return EXIT_ERROR
    except (Exception, asyncio.CancelledError):  # noqa: BLE001 - the last catch there is; all of it is logged
        _log.exception("stopped by an unexpected error")
        return EXIT_ERROR
    return EXIT_OK


def _on_signal(stop: asyncio.Event, number: signal.Signals) -> None:
    if stop.is_set():
        _log.warning("second signal; exiting at once", extra={"signal": number.name})
        _leave(EXIT_ERROR)
    _log.info("stopping", extra={"signal": number.name})
    stop.set()


def _leave(status: int) -> None:
    """End the process without waiting for threads, tasks or atexit handlers."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
