"""What an adapter is given for one attempt of a task."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Callable, Mapping, Optional, Sequence

from .errors import NextError, TaskCancelled
from .feedback import FeedbackPublisher
from .resources import ResourceHandle, ResourceRegistry

#: Calls the next of the chain; the future gives its result, or a NextError.
CallNext = Callable[[Mapping[str, Any]], "Future[Mapping[str, Any]]"]


class Cancellation:
    """Whether the task was stopped. Coroutines are cancelled by asyncio as well; sync code has to look here."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._reason: Optional[str] = None

    @property
    def reason(self) -> Optional[str]:
        return self._reason

    def is_set(self) -> bool:
        return self._event.is_set()

    def wait(self, timeout: Optional[float] = None) -> bool:
        """A pause that ends early when the task is stopped; True where it was."""
        return self._event.wait(timeout)

    def raise_if_set(self) -> None:
        if self._event.is_set():
            raise TaskCancelled(self._reason or "the task was cancelled")

    def set(self, reason: str) -> None:
        """For whoever runs the adapter."""
        self._reason = self._reason or reason
        self._event.set()


class ExecutionContext:
    """The attempt: who asked for what, and the ways to report, to wait and to keep things."""

    def __init__(
        self,
        *,
        run_id: str,
        task_id: str,
        node_id: str,
        package_name: str,
        package_version: str,
        params: Mapping[str, Any],
        feedback: FeedbackPublisher,
        resource_registry: ResourceRegistry,
        data_dir: Path,
        node_type: str = "",
        tenant: str = "default",
        attempt: int = 1,
        config: Optional[Mapping[str, Any]] = None,
        metadata: Optional[Mapping[str, Any]] = None,
        host_node_id: Optional[str] = None,
        middleware_chain: Sequence[str] = (),
        chain_index: Optional[int] = None,
        resource_refs: Sequence[Mapping[str, Any]] = (),
        leased_resources: Sequence[ResourceHandle] = (),
        idempotency_key: Optional[str] = None,
        deadline: Optional[float] = None,
        call_next: Optional[CallNext] = None,
        cancellation: Optional[Cancellation] = None,
    ) -> None:
        self.run_id = run_id
        self.task_id = task_id
        self.node_id = node_id
        self.node_type = node_type
        self.package_name = package_name
        self.package_version = package_version
        self.tenant = tenant
        #: 1 for the first attempt of the task.
        self.attempt = attempt
        #: The node's parameters, with the values that its edges carried.
        self.params: dict[str, Any] = dict(params)
        #: What the manifest says about the node.
        self.config: dict[str, Any] = dict(config or {})
        #: What the dispatch says beside the parameters: constraints, concurrency_key, affinity, priority.
        self.metadata: dict[str, Any] = dict(metadata or {})
        self.host_node_id = host_node_id
        #: Ids of the middlewares, outermost first.
        self.middleware_chain = list(middleware_chain)
        #: The place in the chain; None for whoever is no middleware.
        self.chain_index = chain_index
        self.resource_refs = list(resource_refs)
        #: What the task refers to, held until the adapter has returned.
        self.leased_resources = list(leased_resources)
        self.resource_registry = resource_registry
        self.feedback = feedback
        self.trace: Optional[Mapping[str, Any]] = None
        self.cancellation = cancellation or Cancellation()
        #: The same for every attempt of this task: for services that must not do a thing twice.
        self.idempotency_key = idempotency_key or task_id
        #: When the task runs out of time; None where it has no limit.
        self.deadline = None if deadline is None else datetime.fromtimestamp(deadline, timezone.utc)
        self._call_next = call_next
        self._data_dir = data_dir
        self._has_data_dir = False

    @property
    def data_dir(self) -> Path:
        """A directory of this attempt alone: created when it is first asked for, removed once the adapter has returned."""
        if not self._has_data_dir:
            self._data_dir.mkdir(parents=True, exist_ok=True)
            self._has_data_dir = True
        return self._data_dir

    @property
    def used_data_dir(self) -> bool:
        return self._has_data_dir

    @property
    def secrets(self) -> dict[str, str]:
        """The granted texts by the key under which the package asks for them. Never return or print them."""
        bindings = self.params.get("__resourceBindings")
        if not isinstance(bindings, Mapping):
            return {}
        return {key: one["value"] for key, one in bindings.items() if isinstance(one, Mapping) and isinstance(one.get("value"), str)}

    @property
    def seconds_left(self) -> Optional[float]:
        """Until the deadline, never below 0; None where there is none."""
        return None if self.deadline is None else max(0.0, self.deadline.timestamp() - time.time())

    async def next(
        self,
        payload: Optional[Mapping[str, Any]] = None,
        host_ctx: Optional[Mapping[str, Any]] = None,
        middleware_ctx: Optional[Mapping[str, Any]] = None,
        timeout_ms: Optional[int] = None,
    ) -> dict[str, Any]:
        """Runs the next of the chain, the host at last, and gives its result; raises a NextError where that does not succeed."""
        return dict(await asyncio.wrap_future(self._start_next(payload, host_ctx, middleware_ctx, timeout_ms)))

    def next_blocking(
        self,
        payload: Optional[Mapping[str, Any]] = None,
        host_ctx: Optional[Mapping[str, Any]] = None,
        middleware_ctx: Optional[Mapping[str, Any]] = None,
        timeout_ms: Optional[int] = None,
    ) -> dict[str, Any]:
        """`next` for sync adapters. Blocks its thread: never call it from a coroutine."""
        return dict(self._start_next(payload, host_ctx, middleware_ctx, timeout_ms).result())

    def _start_next(
        self,
        payload: Optional[Mapping[str, Any]],
        host_ctx: Optional[Mapping[str, Any]],
        middleware_ctx: Optional[Mapping[str, Any]],
        timeout_ms: Optional[int],
    ) -> "Future[Mapping[str, Any]]":
        if self.chain_index is None or self._call_next is None:
            raise NextError("next_no_chain", f"node {self.node_id} is not a middleware, so next has nothing to call")
        given = {"payload": payload, "hostCtx": host_ctx, "middlewareCtx": middleware_ctx, "timeoutMs": timeout_ms}
        return self._call_next({key: value for key, value in given.items() if value is not None})
