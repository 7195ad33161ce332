"""The one place where a call begins and ends: context, outcome, code, log line, metric.

Every call leaves exactly one line of its own, whatever happens in it. Servicers raise what domain code raises and never
touch a code. Must not know any RPC in particular beyond the names of the fields that identify its subject.
"""

import asyncio
import inspect
import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import grpc
from google.protobuf.message import Message
from grpc import StatusCode
from grpc.aio import AbortError, ServicerContext

from appkit.logs import bind, get_logger, mask, register_secret
from appkit.metrics import Metrics
from csikit.metrics import CallMetrics, code_name
from csikit.redact import redact, secret_values
from csikit.status import StatusTable

Behaviour = Callable[[Any, ServicerContext[Any, Any]], Any]

# Field of a request -> name in the log. The first that is set gives the name its value.
_SUBJECTS = (
    ("volume_id", "volume"),
    ("source_volume_id", "volume"),
    ("name", "volume"),
    ("snapshot_id", "snapshot"),
    ("group_snapshot_id", "group"),
    ("node_id", "node"),
)
# Asked again and again by sidecars and kubelet; a success is worth a line only when somebody looks for it.
_POLLED = frozenset(
    {
        "ControllerGetCapabilities",
        "GetCapacity",
        "GetPluginCapabilities",
        "GetPluginInfo",
        "GroupControllerGetCapabilities",
        "NodeGetCapabilities",
        "NodeGetVolumeStats",
        "Probe",
    }
)
_OUR_FAULT = frozenset({StatusCode.INTERNAL, StatusCode.UNKNOWN, StatusCode.DATA_LOSS})
# The caller's deadline and ours are the same moment, measured on two clocks.
_DEADLINE_SLACK_S = 0.1
# Details travel in a header, percent-encoded; callers refuse more than 8 KiB of headers and then see another code.
_MAX_DETAILS_BYTES = 6000
_CUT = " (shortened; the log has it whole)"


class _Outcome(NamedTuple):
    code: StatusCode
    text: str = ""
    bug: BaseException | None = None


class CallInterceptor(grpc.aio.ServerInterceptor):
    """Wraps every call of the server it is given to."""

    def __init__(
        self,
        status_table: StatusTable,
        metrics: Metrics,
        logger: logging.Logger | None = None,
        redact: Callable[[Message], str] = redact,
    ) -> None:
        self._status_table = status_table
        self._metrics = CallMetrics(metrics)
        self._logger = logger or get_logger(__name__)
        self._redact = redact

    async def intercept_service(
        self,
        continuation: "Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]]",
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "grpc.RpcMethodHandler[Any, Any] | None":
        """Called by gRPC for each call, before the request is read."""
        handler = await continuation(handler_call_details)
        # None: a method of no registered service, which gRPC answers itself. CSI has no request stream.
        if handler is None or handler.request_streaming:
            return handler
        method = handler_call_details.method.rpartition("/")[2]
        coders = (handler.request_deserializer, handler.response_serializer)
        # Any: the handler is typed for the synchronous server's context.
        behaviour: Any
        if handler.response_streaming:
            behaviour = self._wrapped(method, _written(handler.unary_stream))
            return grpc.unary_stream_rpc_method_handler(behaviour, *coders)
        behaviour = self._wrapped(method, handler.unary_unary)
        return grpc.unary_unary_rpc_method_handler(behaviour, *coders)

    def _wrapped(self, method: str, behaviour: Any) -> Behaviour:
        async def call(request: Message, context: ServicerContext[Any, Any]) -> Any:
            for value in secret_values(request):
                register_secret(value)
            call_id = secrets.token_hex(4)
            with bind(call=call_id, method=method, **_subject(request)):
                return await self._call(method, call_id, behaviour, request, context)

        return call

    async def _call(
        self, method: str, call_id: str, behaviour: Behaviour, request: Message, context: ServicerContext[Any, Any]
    ) -> Any:
        clock = asyncio.get_running_loop().time
        started = clock()
        try:
            # The generated default of an RPC that a service leaves out is a plain function.
            reply = behaviour(request, context)
            if inspect.isawaitable(reply):
                reply = await reply
        except asyncio.CancelledError as error:
            if _is_cancelled():
                self._finish(method, request, _gave_up(context), clock() - started)
                raise
            # Something inside was cancelled, not the call: unanswered, it would hang until the caller's deadline.
            outcome = self._judge(method, call_id, error)
        except AbortError:
            self._finish(method, request, _Outcome(_code_of(context), context.details()), clock() - started)
            raise
        except Exception as error:  # noqa: BLE001 - the last catch there is; what is not in the table is logged
            outcome = self._judge(method, call_id, error)
        else:
            self._finish(method, request, _Outcome(StatusCode.OK), clock() - started)
            return reply
        self._finish(method, request, outcome, clock() - started)
        return await context.abort(outcome.code, _shortened(outcome.text))

    def _judge(self, method: str, call_id: str, error: BaseException) -> _Outcome:
        """What the caller is told about an error. The text of one that nobody planned for stays in the log."""
        code = self._status_table.find_code(error)
        if isinstance(error, NotImplementedError):
            return _Outcome(code or StatusCode.UNIMPLEMENTED, f"{method} is not implemented by this driver")
        if code is None:
            text = f"{method} failed by a fault of the driver; its log has the details under call={call_id}"
            return _Outcome(StatusCode.INTERNAL, text, error)
        return _Outcome(code, mask(str(error)), error if code in _OUR_FAULT else None)

    def _finish(self, method: str, request: Message, outcome: _Outcome, duration_s: float) -> None:
        self._metrics.finished(method, outcome.code, duration_s)
        level = _level(method, outcome.code)
        if not self._logger.isEnabledFor(level):
            return
        fields: dict[str, Any] = {"code": code_name(outcome.code), "duration_s": round(duration_s, 4)}
        if outcome.code is not StatusCode.OK or self._logger.isEnabledFor(logging.DEBUG):
            fields["request"] = self._redact(request)
        self._logger.log(level, "%s", outcome.text or "done", extra=fields, exc_info=outcome.bug)


def _written(behaviour: Any) -> Behaviour:
    """A response stream as one awaitable, so that its end is the end of the call."""

    async def write_all(request: Any, context: ServicerContext[Any, Any]) -> None:
        replies = behaviour(request, context)
        if not inspect.isasyncgen(replies):
            await replies
            return
        async for reply in replies:
            await context.write(reply)

    return write_all


def _subject(request: Message) -> dict[str, str]:
    fields: dict[str, str] = {}
    for field, shown in _SUBJECTS:
        if value := getattr(request, field, ""):
            fields.setdefault(shown, value)
    return fields


def _is_cancelled() -> bool:
    """Whether this call's own task was asked to end: by the caller, its deadline, or the end of the drain."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _gave_up(context: ServicerContext[Any, Any]) -> _Outcome:
    remaining_s = context.time_remaining()
    if remaining_s is not None and remaining_s <= _DEADLINE_SLACK_S:
        return _Outcome(StatusCode.DEADLINE_EXCEEDED, "the caller's deadline passed before the call was done")
    return _Outcome(StatusCode.CANCELLED, "the call was cancelled, by its caller or because the service stops")


def _code_of(context: ServicerContext[Any, Any]) -> StatusCode:
    """The code that a servicer set; gRPC gives it back as it was given, or as a number."""
    given: Any = context.code()
    return next((code for code in StatusCode if given in (code, code.value[0])), StatusCode.UNKNOWN)


def _level(method: str, code: StatusCode) -> int:
    if code is StatusCode.OK:
        return logging.DEBUG if method in _POLLED else logging.INFO
    return logging.ERROR if code in _OUR_FAULT else logging.WARNING


def _shortened(text: str) -> str:
    """The text in the room that callers give it; bytes of a path that are no UTF-8 are shown as numbers."""
    text = text.encode(errors="backslashreplace").decode()
    room = _MAX_DETAILS_BYTES
    for position, character in enumerate(text):
        room -= (
            1 if character.isascii() and character.isprintable() and character != "%" else 3 * len(character.encode())
        )
        if room < 0:
            return text[:position] + _CUT
    return text
