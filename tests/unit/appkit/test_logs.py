import asyncio
import errno
import io
import json
import logging
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from appkit import logs
from appkit.logs import Format

SECRET = "kubernetes-csi@pve!csi=0a1b2c3d-planted"  # planted in every place a record has


@pytest.fixture(params=["json", "text"])
def log_format(request: pytest.FixtureRequest) -> Format:
    return "json" if request.param == "json" else "text"


Configure = Callable[[Format], io.StringIO]


@pytest.fixture
def configure() -> Iterator[Configure]:
    root = logging.getLogger()
    level = root.level

    def configure(log_format: Format) -> io.StringIO:
        # pytest's own handlers raise on a wrong log call, before ours sees it.
        root.handlers.clear()
        stream = io.StringIO()
        logs.configure(log_format, "debug", stream)
        return stream

    yield configure
    root.setLevel(level)
    root.handlers.clear()


def one(stream: io.StringIO) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(stream.getvalue())
    return value


def test_a_json_line_has_message_fields_and_time(configure: Configure) -> None:
    stream = configure("json")
    logs.get_logger("a.b").info("staged %s", "it", extra={"volume": "v-1", "size_bytes": 5})
    line = one(stream)
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "INFO", "logger": "a.b", "message": "staged it", "volume": "v-1", "size_bytes": 5
    }  # fmt: skip


def test_a_text_line_stays_one_line_and_quotes_what_needs_it(configure: Configure) -> None:
    stream = configure("text")
    logs.get_logger("a").warning('two\nlines "here"', extra={"plain": "x", "spaced": "a b", "empty": "", "list": [1]})
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert text.endswith('WARNING a two\\nlines "here" plain=x spaced="a b" empty="" list=[1]\n')


async def test_bound_fields_belong_to_the_body_and_to_tasks_started_in_it(configure: Configure) -> None:
    stream = configure("json")
    logger = logs.get_logger("a")

    async def inner() -> None:
        with logs.bind(step=1):
            logger.info("in")

    with logs.bind(method="CreateVolume", volume="v"):
        await asyncio.create_task(inner())
        logger.info("between", extra={"volume": "w"})
    logger.info("after")
    lines = [json.loads(each) for each in stream.getvalue().splitlines()]
    assert [(each.get("method"), each.get("volume"), each.get("step")) for each in lines] == [
        ("CreateVolume", "v", 1),
        ("CreateVolume", "w", None),
        (None, None, None),
    ]


def test_a_field_cannot_pose_as_the_time_or_the_level(configure: Configure) -> None:
    stream = configure("json")
    logs.get_logger("a").info("m", extra={"time": "noon", "level": "low"})
    assert (one(stream)["time_"], one(stream)["level_"], one(stream)["level"]) == ("noon", "low", "INFO")


def test_a_planted_secret_is_nowhere(configure: Configure, log_format: Format) -> None:
    logs.register_secret(SECRET)
    stream = configure(log_format)
    logger = logs.get_logger("a")
    logger.info(f"in the message {SECRET}")  # noqa: G004 - as a careless caller would
    logger.info("in an argument %s, in a mapping %r", SECRET, {"token": SECRET})
    logger.info("as bytes %r, in a URL %s", SECRET.encode(), "https://h/?t=" + urllib.parse.quote(SECRET))
    logger.info("in a field", extra={"token": SECRET, "deep": {"list": [SECRET, (SECRET,)], SECRET: 1}})
    with logs.bind(token=SECRET):
        logger.info("in a bound field")
    try:
        try:
            raise KeyError(SECRET)
        except KeyError as error:
            raise RuntimeError(f"outer {SECRET}") from error
    except RuntimeError:
        logger.exception("in a traceback and its cause")
    logger.info("in a stack", stack_info=True)
    logger.info("in a wrong call %d", SECRET)
    logging.getLogger("third.party").warning("from %s", SECRET)
    logging.getLogger(SECRET).warning("in a logger's name")
    text = stream.getvalue()
    assert SECRET not in text
    assert SECRET.partition("=")[2] not in text
    assert urllib.parse.quote(SECRET) not in text
    assert text.count("[redacted]") >= 12
    assert len(text.splitlines()) == 10


def test_a_wrong_log_call_is_named_without_its_arguments(configure: Configure) -> None:
    stream = configure("text")
    logs.get_logger("a").info("%d", "not a number")
    assert stream.getvalue().startswith("log call failed: a ")
    assert "not a number" not in stream.getvalue()


def test_configuring_again_replaces_the_first(configure: Configure) -> None:
    first, second = configure("text"), configure("json")
    logs.get_logger("a").info("once")
    assert (first.getvalue(), one(second)["message"]) == ("", "once")


def test_unknown_formats_and_levels_are_refused(configure: Configure) -> None:
    with pytest.raises(ValueError, match="json"):
        logs.configure("xml")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="LOUD"):
        logs.configure("text", "loud")


@pytest.mark.parametrize(("level", "shown"), [("info", False), ("debug", True)])
def test_the_http_client_tells_of_each_request_at_debug_only(configure: Configure, level: str, shown: bool) -> None:
    stream = configure("text")
    logs.configure("text", level, stream)
    logging.getLogger("httpx").info("HTTP Request: GET /")
    assert ("HTTP Request" in stream.getvalue()) is shown


class FullDisk(io.StringIO):
    """Standard error as a file on a full disk."""

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_stream_that_takes_nothing_does_not_fail_the_work(configure: Configure, log_format: Format) -> None:
    configure(log_format)
    logs.configure(log_format, stream=FullDisk())
    logging.getLogger("test").info("formatting a blank disk")


def test_a_path_that_is_no_utf8_does_not_lose_the_line(configure: Configure, log_format: Format) -> None:
    stream = configure(log_format)
    logging.getLogger("test").info("mounted", extra={"path": "/pods/\udcff"})
    assert b"/pods/" in stream.getvalue().encode()
