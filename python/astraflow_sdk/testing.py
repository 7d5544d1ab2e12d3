"""Runs an adapter without a scheduler or a worker, and records what it reports.

    from astraflow_sdk.testing import run_adapter

    run = run_adapter(SummariseAdapter(), {"urls": ["a"]})
    assert run.outputs["summary"] == "..."
    assert run.text("llm") == "..."
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import tempfile
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Mapping, Optional, Sequence, Union

from .context import Cancellation, ExecutionContext
from .encoding import to_json
from .errors import NextError, ResourceError
from .feedback import FeedbackPublisher
from .invocation import as_handler, call_handler, find_handler, is_coroutine_handler, load_entrypoint, read_mode
from .resources import LiveValues, ResourceRegistry

_SUCCEEDED = {"success", "succeed", "succeeded", "allowed", "blocked", "ok", "done"}
_OTHER = {"cancel": "CANCELLED", "cancelled": "CANCELLED", "skip": "SKIPPED", "skipped": "SKIPPED"}


class RecordedFeedback:
    """A sink that keeps everything."""

    def __init__(self) -> None:
        self.reports: list[dict[str, Any]] = []

    def post(self, feedback: Mapping[str, Any]) -> None:
        # As it would leave: a value that cannot is found here.
        to_json(feedback)
        self.reports.append(dict(feedback))

    async def wait_for_room(self) -> None:
        return None


class MemoryResources:
    """Answers as a worker's registry does, from memory, without expiry."""

    def __init__(self, worker_name: str = "test-worker") -> None:
        self.worker_name = worker_name
        self.values = LiveValues()
        self.entries: dict[str, dict[str, Any]] = {}

    def ask(self, operation: str, arguments: Mapping[str, Any]) -> Any:
        method: Optional[Callable[[Mapping[str, Any]], Any]] = getattr(self, f"_do_{operation}", None)
        if method is None:
            raise ResourceError(f"resources have no operation {operation}", "E.CMD.UNKNOWN")
        return method(arguments)

    def _do_register(self, given: Mapping[str, Any]) -> dict[str, Any]:
        now = int(time.time() * 1000)
        entry = {
            "id": given["id"],
            "type": given["type"],
            "scope": given.get("scope"),
            "path": given.get("path"),
            "metadata": given.get("metadata") or {},
            "sizeBytes": given.get("sizeBytes", 0),
            "createdAt": now,
            "expiresAt": given.get("expiresAt", now + 3_600_000),
            "inUse": 0,
            "state": "idle",
        }
        self.entries[given["id"]] = entry
        return entry

    def _do_registerFile(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return self._do_register({**given, "sizeBytes": Path(given["path"]).stat().st_size})

    def _do_get(self, given: Mapping[str, Any]) -> Optional[dict[str, Any]]:
        return self.entries.get(given["id"])

    def _do_lease(self, given: Mapping[str, Any]) -> dict[str, Any]:
        entry = self._find(given)
        entry["inUse"] += 1
        entry["state"] = "leased"
        return entry

    def _do_release(self, given: Mapping[str, Any]) -> None:
        entry = self.entries.get(given["id"])
        if entry is not None and entry["inUse"] > 0:
            entry["inUse"] -= 1
            entry["state"] = "leased" if entry["inUse"] else "idle"

    def _do_touch(self, given: Mapping[str, Any]) -> bool:
        entry = self.entries.get(given["id"])
        if entry is not None:
            entry["expiresAt"] = given.get("expiresAt", int(time.time() * 1000) + 3_600_000)
        return entry is not None

    def _do_drop(self, given: Mapping[str, Any]) -> bool:
        return self.entries.pop(given["id"], None) is not None

    def _do_releaseScope(self, given: Mapping[str, Any]) -> int:
        names = [name for name, entry in self.entries.items() if entry["scope"] == given["scope"]]
        for name in names:
            del self.entries[name]
        return len(names)

    def _do_list(self, given: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [one for one in self.entries.values() if all(one[key] == value for key, value in given.items())]

    def _do_artifact(self, given: Mapping[str, Any]) -> dict[str, Any]:
        entry = self._find(given)
        return {
            "resource_id": entry["id"],
            "worker_name": self.worker_name,
            "type": entry["type"],
            "size_bytes": entry["sizeBytes"],
            "inline": bool(given.get("inline")),
            "metadata": entry["metadata"],
        }

    def _find(self, given: Mapping[str, Any]) -> dict[str, Any]:
        entry = self.entries.get(given["id"])
        if entry is None:
            raise ResourceError(f"worker {self.worker_name} does not keep resource {given['id']}", "E.RESOURCE.MISSING")
        return entry


@dataclass
class AdapterRun:
    """How an adapter ended, and what it reported on the way."""

    context: ExecutionContext
    #: SUCCEEDED, FAILED, SKIPPED or CANCELLED; FAILED where it raised or returned no object.
    status: str = "FAILED"
    outputs: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    artifacts: list[Any] = field(default_factory=list)
    #: What it returned, as it was.
    returned: Any = None
    #: What it raised, or why its result is none.
    error: Optional[BaseException] = None
    reports: list[dict[str, Any]] = field(default_factory=list)
    stdout: str = ""

    @property
    def stages(self) -> list[str]:
        return [report["stage"] for report in self.reports if "stage" in report]

    @property
    def progress(self) -> list[float]:
        return [report["progress"] for report in self.reports if "progress" in report]

    def text(self, channel: str = "log") -> str:
        """All text on a channel."""
        chunks = (chunk for report in self.reports for chunk in report.get("chunks", ()))
        return "".join(chunk.get("text", "") for chunk in chunks if chunk["channel"] == channel)

    def raise_error(self) -> "AdapterRun":
        """For tests that expect a result."""
        if self.error is not None:
            raise self.error
        return self


def run_adapter(
    target: Any,
    params: Optional[Mapping[str, Any]] = None,
    *,
    handler: Optional[str] = None,
    node_type: str = "test.node",
    secrets: Optional[Mapping[str, str]] = None,
    resources: Optional[MemoryResources] = None,
    resource_refs: Sequence[str] = (),
    call_next: Optional[Callable[[Mapping[str, Any]], Mapping[str, Any]]] = None,
    config: Optional[Mapping[str, Any]] = None,
    data_dir: Union[str, Path, None] = None,
    timeout: Optional[float] = 30,
    cancel_after: Optional[float] = None,
    mode: str = "auto",
    **names: Any,
) -> AdapterRun:
    """Runs `target` once: a function, an object or class with handlers, or an entrypoint such as "package.module:Class".

    `handler` names the handler among several. `call_next` answers what a middleware calls. `cancel_after` cancels after so many
    seconds. Other keywords are fields of the context, such as `attempt` or `idempotency_key`.
    """
    feedback = RecordedFeedback()
    registry = resources or MemoryResources()
    given = dict(params or {})
    if secrets:
        given["__resourceBindings"] = {key: {"type": "secret", "value": value} for key, value in secrets.items()}
    printed = io.StringIO()
    with contextlib.ExitStack() as stack:
        folder = Path(data_dir) if data_dir is not None else Path(stack.enter_context(tempfile.TemporaryDirectory()))
        face = ResourceRegistry(registry.ask, registry.values)
        context = ExecutionContext(
            **{
                "run_id": "test-run",
                "task_id": "test-task",
                "node_id": "test-node",
                "package_name": "test",
                "package_version": "0.0.0",
                **({} if call_next is None else {"chain_index": 0, "middleware_chain": ["test-node"], "host_node_id": "test-host"}),
                **names,
            },
            node_type=node_type,
            params=given,
            config=config,
            feedback=FeedbackPublisher(feedback),
            resource_registry=face,
            leased_resources=[face.lease(name) for name in resource_refs],
            resource_refs=[{"resource_id": name, "worker_name": registry.worker_name} for name in resource_refs],
            data_dir=folder,
            deadline=None if timeout is None else time.time() + timeout,
            call_next=None if call_next is None else lambda arguments: _answer(call_next, arguments),
            cancellation=Cancellation(),
        )
        run = AdapterRun(context, reports=feedback.reports)
        found = _find(target, node_type, handler)
        stack.enter_context(contextlib.redirect_stdout(printed))
        try:
            run.returned = asyncio.run(_call(found, context, read_mode(mode), timeout, cancel_after))
            _read(run)
        except asyncio.CancelledError:
            run.status = "CANCELLED"
        except Exception as error:
            run.error = error
    run.stdout = printed.getvalue()
    return run


def _find(target: Any, node_type: str, handler: Optional[str]) -> Callable[[ExecutionContext], Any]:
    loaded = load_entrypoint(target) if isinstance(target, str) else target() if isinstance(target, type) else target
    found = as_handler(loaded) if handler is None else find_handler(loaded, node_type, handler)
    if found is None:
        raise TypeError(f"{target!r} has no handler{'' if handler is None else f' {handler}'}; it needs a function, async_run or run")
    return found


async def _call(
    handler: Callable[[ExecutionContext], Any],
    context: ExecutionContext,
    mode: str,
    timeout: Optional[float],
    cancel_after: Optional[float],
) -> Any:
    with ThreadPoolExecutor(max_workers=1) as pool:
        task = asyncio.ensure_future(call_handler(handler, context, mode, pool))

        def cancel() -> None:
            context.cancellation.set("cancelled by the test")
            if is_coroutine_handler(handler):
                task.cancel()

        if cancel_after is not None:
            asyncio.get_running_loop().call_later(cancel_after, cancel)
        try:
            return await asyncio.wait_for(task, timeout)
        except asyncio.TimeoutError:
            context.cancellation.set("the test's time is up")
            raise


def _answer(call_next: Callable[[Mapping[str, Any]], Mapping[str, Any]], arguments: Mapping[str, Any]) -> "Future[Mapping[str, Any]]":
    future: "Future[Mapping[str, Any]]" = Future()
    try:
        future.set_result(call_next(arguments))
    except NextError as error:
        future.set_exception(error)
    return future


def _read(run: AdapterRun) -> None:
    """As the worker reads it."""
    returned = run.returned
    if not isinstance(returned, Mapping):
        raise TypeError(f"the adapter returned {type(returned).__name__}; it must return an object")
    to_json(returned)
    status = returned.get("status")
    word = "succeeded" if status is None else str(status).strip().lower()
    run.status = "SUCCEEDED" if word in _SUCCEEDED else _OTHER.get(word, "FAILED")
    outputs = returned.get("outputs")
    others = {key: value for key, value in returned.items() if key not in ("status", "outputs", "metadata", "artifacts")}
    run.outputs = dict(outputs) if isinstance(outputs, Mapping) else others
    run.metadata = dict(returned.get("metadata") or {})
    run.artifacts = list(returned.get("artifacts") or [])
