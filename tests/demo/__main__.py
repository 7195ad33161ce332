"""`python -m tests.demo`: plays the story, leaves nothing behind. KEEP=1 leaves it running, `--stop` ends such runs."""

import argparse
import asyncio
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import httpx
from rich.console import Console

from tests.demo import host_tools, leftovers
from tests.demo.keeping import keep
from tests.demo.play import Play
from tests.demo.processes import DemoError, tail
from tests.demo.screen import Screen
from tests.demo.stage import Stage
from tests.demo.story import Story
from tests.pvesim.worlds import CSI_TOKEN

OWNER = "owner"


def main() -> int:
    """The exit status: 0 when everything was as it should be, 1 when something was off, 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m tests.demo", description=__doc__)
    parser.add_argument("--stop", action="store_true", help="end runs that were left with KEEP=1")
    screen = Screen(Console(width=None if sys.stdout.isatty() else 120, highlight=False, soft_wrap=False))
    if parser.parse_args().stop:
        return stop_kept(screen)
    return run(screen, keeping=os.environ.get("KEEP", "") not in ("", "0"))


def run(screen: Screen, *, keeping: bool) -> int:
    """One run from start to clean-up."""
    # Both end the run like Ctrl-C, with the same clean-up.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    clear_abandoned(screen)
    folder = Path(tempfile.mkdtemp(prefix=leftovers.PREFIX, dir=leftovers.base()))
    (folder / OWNER).write_text(str(os.getpid()), encoding="ascii")
    kept = False
    try:
        kept = asyncio.run(play(screen, folder, keeping=keeping))
        return 0
    except DemoError as error:
        log = folder / "logs" / f"{error.process}.log"
        screen.failure(str(error), log.name, tail(log) if error.process else "")
        return 1
    except KeyboardInterrupt:
        screen.say("\nInterrupted; cleaning up.")
        return 130
    finally:
        # From here on Ctrl-C would only leave things behind.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        if not kept:
            for line in leftovers.remove(folder):
                screen.failure(f"could not be removed: {line}")


async def play(screen: Screen, folder: Path, *, keeping: bool) -> bool:
    """Plays the story; True when it was left running."""
    started = time.monotonic()
    ability = host_tools.examine()
    announce(screen, ability)
    stage = Stage(screen, folder, real=ability.real)
    try:
        await stage.build()
        clean = await stage.pve.snapshot()
        play = Play(screen, stage.pve, CSI_TOKEN)
        await Story(stage, play).tell()
        screen.chapter("Nothing is left")
        await stage.check_clean(clean)
        if not keeping:
            await stage.close()
        screen.say(
            f"All as it should be: {play.steps} steps, {play.foreground} foreground requests to Proxmox VE, "
            f"{time.monotonic() - started:.0f} s." + ("" if ability.real else " (mkfs, mount and grow were recorded)"),
            style="bold green",
        )
        if keeping:
            keep(screen, stage)
        return keeping
    except httpx.HTTPError as error:
        stage.processes.check()
        raise DemoError(f"a simulator does not answer: {error or type(error).__name__}") from error
    finally:
        await stage.disconnect()


def announce(screen: Screen, ability: host_tools.HostAbility) -> None:
    """How real this run is."""
    screen.chapter("pvecloud: a volume's whole life, as real processes over real sockets")
    if ability.real:
        screen.say("Disks are loop devices, file systems are made, mounted and grown for real.")
        return
    screen.say("mkfs, mount and grow are recorded, not run, because of this machine:", style="yellow")
    for reason in ability.reasons:
        screen.say(f"  {reason}", style="yellow")


def clear_abandoned(screen: Screen) -> None:
    """Removes what a killed run left; runs left on purpose stay."""
    for folder in leftovers.folders():
        try:
            owner = int((folder / OWNER).read_text(encoding="ascii"))
        except (OSError, ValueError):
            continue
        if not Path(f"/proc/{owner}").exists() and not (folder / "kept").exists():
            screen.say(f"Removing what an earlier, killed run left in {folder}.", style="dim")
            leftovers.remove(folder)


def stop_kept(screen: Screen) -> int:
    """Ends every run that was left with KEEP=1."""
    kept = [folder for folder in leftovers.folders() if (folder / "kept").exists()]
    if not kept:
        screen.say("No demo was left running.")
    left = [line for folder in kept for line in leftovers.remove(folder)]
    for folder in kept:
        screen.say(f"Stopped the demo in {folder}.")
    for line in left:
        screen.failure(f"could not be removed: {line}")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
