"""`pvecloud-ccm`: reads flags and settings, builds the service, runs it until SIGTERM."""

import asyncio
import os
import sys

from appkit.logs import configure, get_logger
from appkit.run import run_service
from ccm.app import build
from ccm.flags import ignored_flags, overrides_of, parse_flags
from ccm.settings import load_settings

_log = get_logger(__name__)


def main() -> int:
    """The console script; returns the exit status."""
    arguments = parse_flags(sys.argv[1:])

    async def serve(stop: asyncio.Event) -> None:
        loaded = load_settings(config=arguments.config, env=os.environ, overrides=overrides_of(arguments))
        configure(loaded.settings.log_format, loaded.settings.log_level)
        if ignored := ignored_flags(arguments):
            _log.info("flags of the Go cloud-controller-manager without meaning here: %s", ", ".join(ignored))
        if loaded.cloud.features.force_update_labels:
            _log.warning(
                "features.force_update_labels is not in this version yet: labels are set at initialisation only"
            )
        app = await build(loaded)
        try:
            await app.run(stop)
        finally:
            await app.aclose()

    return run_service(serve)


if __name__ == "__main__":
    sys.exit(main())
