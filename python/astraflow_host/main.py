"""The host: reads the frames of the worker, calls adapters, and reports what they do."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import socket
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Mapping, Optional

from astraflow_sdk.context import Cancellation, ExecutionContext
from astraflow_sdk.errors import NextError, ResourceError, TaskError
from astraflow_sdk.feedback import FeedbackPublisher
from astraflow_sdk.invocation import Handler, LoadError, call_handler, find_handler, is_coroutine_handler, load_entrypoint, read_mode
from astraflow_sdk.resources import LiveValues, ResourceRegistry

from .channel import Channel, ChannelClosed
from .errors import describe, package_stack
from .limits import limit_memory, limit_processor_time
from .module_path import add_package_folders, merge_same_names
from .output import OutputCapture, current_call

PROTOCOL = 1
#: Descriptor of the frames; 1 and 2 are for whatever prints.
FRAME_DESCRIPTOR = 3
PYTHON_MIN = (3, 10)


class Call:
    """One attempt that runs here."""

    def __init__(self, number: int, context: ExecutionContext) -> None:
        self.number = number
        self.context = context
        self.task: Optional["asyncio.Task[None]"] = None
        #: A coroutine is cancelled by asyncio; a thread has to look.
        self.is_coroutine = False
        self.has_started = False


class FeedbackToWorker:
    """The feedback of one call."""

    def __init__(self, host: "Host", call: int) -> None:
        self._host = host
        self._call = call

    def post(self, feedback: Mapping[str, Any]) -> None:
        self._host.output.flush(self._call)
        self._host.send_feedback(self._call, feedback)

    async def wait_for_room(self) -> None:
        room = self._host.channel.room()
        if not room.done():
            await asyncio.wrap_future(room)


class Host:
    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.output = OutputCapture(self._give_output, channel.gather_soon)
        channel.gather = self._gather
        self._values = LiveValues()
        self._calls: dict[int, Call] = {}
        self._requests = itertools.count()
        self._pending: dict[int, "Future[Any]"] = {}
        self._handlers: dict[str, tuple[Handler, str]] = {}
        self._package: Mapping[str, Any] = {}
        self._settings: Mapping[str, Any] = {}
        self._pool: ThreadPoolExecutor
        self._loop: asyncio.AbstractEventLoop
        self._is_ending = False
        self._ended: asyncio.Event

    # ---- the package

    def open(self, hello: Mapping[str, Any], aliases: str) -> None:
        """Loads what `hello` names and says what was found."""
        self._package = hello["package"]
        self._settings = hello["settings"]
        self.channel.feedback_max = hello["limits"]["pendingFeedbackMax"]
        limit_memory(self._settings.get("memoryMbMax"))
        self._pool = ThreadPoolExecutor(max_workers=max(1, self._settings["parallelMax"]), thread_name_prefix="adapter")
        problems: list[dict[str, str]] = []
        runtime = "python %d.%d.%d" % sys.version_info[:3]
        if hello["protocol"] != PROTOCOL:
            problems.append(_problem(f"this host speaks protocol {PROTOCOL}, the worker {hello['protocol']}"))
        elif sys.version_info < PYTHON_MIN:
            problems.append(_problem(f"{runtime} is too old: adapters need Python %d.%d or newer" % PYTHON_MIN))
        else:
            add_package_folders(self._package["dir"], aliases)
            problems += self._load_adapters()
        handlers = [node["type"] for node in self._package["nodes"] if node["type"] in self._handlers]
        self.channel.send({"type": "ready", "runtime": runtime, "handlers": handlers, "problems": problems})

    def _load_adapters(self) -> list[dict[str, str]]:
        problems: list[dict[str, str]] = []
        for adapter in self._package["adapters"]:
            entrypoint = adapter["entrypoint"]
            try:
                merge_same_names(entrypoint, self._package["dir"])
                target = load_entrypoint(entrypoint)
            except LoadError as error:
                problems.append(_problem(str(error)))
                continue
            except BaseException as error:
                stack = package_stack(error, self._package["dir"])
                problems.append(_problem(f"entrypoint {entrypoint} cannot be imported: {stack or describe(error)}"))
                continue
            for node in self._package["nodes"]:
                if node["adapter"] == adapter["name"]:
                    problems += self._add_handler(adapter, target, node)
        return problems

    def _add_handler(self, adapter: Mapping[str, Any], target: Any, node: Mapping[str, Any]) -> list[dict[str, str]]:
        try:
            handler = find_handler(target, node["type"], node["handler"])
        except BaseException as error:
            return [_problem(f"the handler of {node['type']} cannot be created: {describe(error)}")]
        if handler is None and node.get("isImplied"):
            return []
        if handler is None:
            return [_problem(f"{node['type']} names handler {node['handler']}, which {adapter['entrypoint']} does not have")]
        mode = read_mode(node["config"].get("exec_mode"), adapter["metadata"].get("exec_mode"), self._settings["execMode"])
        self._handlers[node["type"]] = (handler, mode)
        return []

    # ---- frames of the worker

    async def run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        # The worker asks for the end by a signal, and kills what is left soon after.
        self._loop.add_signal_handler(signal.SIGTERM, self._stop)
        threading.Thread(target=self._read, name="astraflow-reader", daemon=True).start()
        await self._ended.wait()

    def _read(self) -> None:
        try:
            while True:
                frames = []
                for frame in self.channel.receive():
                    # Code that waits for an answer may hold the loop.
                    if frame["type"] == "answer":
                        self._settle(frame)
                    else:
                        frames.append(frame)
                if frames:
                    self._loop.call_soon_threadsafe(self._handle_frames, frames)
        except (ChannelClosed, OSError):
            end_group()

    def _settle(self, frame: Mapping[str, Any]) -> None:
        future = self._pending.pop(frame["request"], None)
        if future is None or not future.set_running_or_notify_cancel():
            return
        error = frame.get("error")
        if error is None:
            future.set_result(frame.get("value"))
        elif error["code"].startswith("next_") or "trace" in error:
            future.set_exception(NextError(error["code"], error["message"], error.get("trace")))
        else:
            future.set_exception(ResourceError(error["message"], error["code"]))

    def _handle_frames(self, frames: "list[dict[str, Any]]") -> None:
        for frame in frames:
            kind = frame["type"]
            if kind == "start":
                self._start(frame["call"], frame["attempt"])
            elif kind == "cancel":
                self._cancel(frame["call"], frame["reason"])
            elif kind == "dropped":
                self._drop_value(frame["value"], frame["reason"])
            elif kind == "ping":
                self.channel.send({"type": "pong", "ping": frame["ping"]})
            elif kind == "end":
                self._is_ending = True
                self._end_if_idle()

    # ---- calls

    def _start(self, number: int, attempt: Mapping[str, Any]) -> None:
        found = self._handlers.get(attempt["nodeType"])
        if found is None:
            name = f"package {self._package['name']} {self._package['version']}"
            message = f"{name} has no handler for {attempt['nodeType']}"
            self.channel.send_last(number, {"type": "error", "call": number, "code": "E.CMD.UNKNOWN", "message": message})
            return
        handler, mode = found
        call = Call(number, self._create_context(number, attempt))
        call.is_coroutine = is_coroutine_handler(handler)
        self._calls[number] = call
        limit_processor_time(self._settings.get("cpuSecondsMax"))
        call.task = self._loop.create_task(self._run_call(call, handler, mode))

    async def _run_call(self, call: Call, handler: Handler, mode: str) -> None:
        current_call.set(call.number)
        call.has_started = True
        try:
            call.context.cancellation.raise_if_set()
            frame = self._describe_result(call, await call_handler(handler, call.context, mode, self._pool))
        except asyncio.CancelledError:
            reason = call.context.cancellation.reason or "the adapter was cancelled"
            frame = self._error(call, "E.RUNNER.CANCELLED", reason)
        except BaseException as error:
            frame = self._describe_error(call, error)
        self._calls.pop(call.number, None)
        self.output.flush(call.number)
        if call.context.used_data_dir:
            frame["usedDataDir"] = True
        self._send_last(call, frame)
        self._end_if_idle()

    def _describe_result(self, call: Call, value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            message = f"the adapter returned {_describe_value(value)}; it must return an object"
            return self._error(call, None, message)
        return {"type": "result", "call": call.number, "value": dict(value)}

    def _describe_error(self, call: Call, error: BaseException) -> dict[str, Any]:
        code = error.code if isinstance(error, TaskError) else None
        message = str(error) if isinstance(error, (TaskError, NextError)) else describe(error)
        frame = self._error(call, code, message)
        stack = package_stack(error, self._package["dir"])
        if stack is not None:
            frame["stack"] = stack
        return frame

    def _error(self, call: Call, code: Optional[str], message: str) -> dict[str, Any]:
        frame: dict[str, Any] = {"type": "error", "call": call.number, "message": message}
        return frame if code is None else {**frame, "code": code}

    def _send_last(self, call: Call, frame: dict[str, Any]) -> None:
        try:
            self.channel.send_last(call.number, frame)
        except (TypeError, ValueError, RecursionError) as error:
            message = f"the result cannot be written as JSON: {error}"
            self.channel.send_last(call.number, self._error(call, None, message))

    def _cancel(self, number: int, reason: str) -> None:
        call = self._calls.get(number)
        if call is None:
            return
        call.context.cancellation.set(reason)
        # A task that is cancelled before its first step would end without a word.
        if call.is_coroutine and call.has_started and call.task is not None:
            call.task.cancel()

    def _create_context(self, number: int, attempt: Mapping[str, Any]) -> ExecutionContext:
        registry = ResourceRegistry(lambda operation, arguments: self._ask_resource(number, operation, arguments), self._values)
        deadline = attempt.get("deadline")
        return ExecutionContext(
            run_id=attempt["runId"],
            task_id=attempt["taskId"],
            node_id=attempt["nodeId"],
            node_type=attempt["nodeType"],
            package_name=self._package["name"],
            package_version=self._package["version"],
            tenant=attempt["tenant"],
            attempt=attempt["attempt"],
            params=attempt["params"],
            config=attempt["config"],
            metadata=attempt["metadata"],
            data_dir=Path(attempt["dataDir"]),
            idempotency_key=attempt["idempotencyKey"],
            deadline=None if deadline is None else deadline / 1000,
            host_node_id=attempt.get("hostNodeId"),
            middleware_chain=attempt["middlewareChain"],
            chain_index=attempt.get("chainIndex"),
            resource_refs=attempt["resourceRefs"],
            leased_resources=[registry.restore(one) for one in attempt["leased"]],
            resource_registry=registry,
            feedback=FeedbackPublisher(FeedbackToWorker(self, number)),
            call_next=lambda arguments: self._request(number, {"method": "next", **arguments}),
            cancellation=Cancellation(),
        )

    # ---- requests

    def _ask_resource(self, call: int, operation: str, arguments: Mapping[str, Any]) -> Any:
        return self._request(call, {"method": "resource", "operation": operation, "arguments": arguments}).result()

    def _request(self, call: int, fields: Mapping[str, Any]) -> "Future[Any]":
        future: "Future[Any]" = Future()
        request = next(self._requests)
        self._pending[request] = future
        try:
            self.channel.send({"type": "request", "request": request, "call": call, **fields})
        except BaseException:
            self._pending.pop(request, None)
            raise
        return future

    # ---- output

    def send_feedback(self, call: int, feedback: Mapping[str, Any]) -> None:
        try:
            self.channel.send_feedback(call, {"type": "feedback", "call": call, "input": feedback})
        except (TypeError, ValueError, RecursionError) as error:
            self._report("feedback cannot be written as JSON and was dropped", error)

    def _give_output(self, call: Optional[int], channel: str, text: str) -> None:
        if call is None and len(self._calls) == 1:
            call = next(iter(list(self._calls)), None)
        if call is not None:
            self.send_feedback(call, {"chunks": [{"channel": channel, "text": text}]})
        else:
            self.channel.send({"type": "output", "channel": "stdout" if channel == "stdout" else "stderr", "text": text})

    def _gather(self) -> None:
        self.output.flush(everything=True)
        dropped = self.channel.take_dropped()
        if dropped:
            self._report("feedback was dropped because too much waits for the worker", f"{dropped} frames")

    def _report(self, message: str, cause: object) -> None:
        self.channel.send({"type": "report", "message": message, "cause": str(cause)})

    # ---- the end

    def _drop_value(self, number: int, reason: str) -> None:
        try:
            self._values.drop(number, reason)
        except Exception as error:
            self._report("a resource could not be cleaned up", describe(error))

    def _stop(self) -> None:
        self._is_ending = True
        for number in list(self._calls):
            self._cancel(number, "the host ends")
        self._end_if_idle()

    def _end_if_idle(self) -> None:
        if self._is_ending and not self._calls:
            self._ended.set()


def end_group() -> None:
    """The worker is gone: nothing that was started here may stay."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def _problem(message: str) -> dict[str, str]:
    return {"code": "E.PKG.INVALID", "message": message}


def _describe_value(value: Any) -> str:
    if value is None:
        return "nothing"
    return repr(value)[:200] if isinstance(value, (str, int, float, bool)) else f"a {type(value).__name__}"


def main(aliases: str) -> None:
    connection = socket.socket(fileno=FRAME_DESCRIPTOR)
    # Programs that adapters start must not hold it.
    os.set_inheritable(FRAME_DESCRIPTOR, False)
    host = Host(Channel(connection))
    host.output.install()
    try:
        (hello, *early) = host.channel.receive()
    except ChannelClosed:
        return
    assert not early and hello["type"] == "hello", "the first frame of a worker is hello"
    host.open(hello, aliases)
    asyncio.run(host.run())
    host.output.flush(everything=True)
    # Threads of adapters that did not end must not keep the process.
    os._exit(0)
