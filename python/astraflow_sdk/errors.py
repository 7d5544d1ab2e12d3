"""The errors that an adapter raises, and those that it may see."""

from __future__ import annotations

from typing import Any, Mapping, Optional


class TaskError(Exception):
    """Fails the task with a code of its own, such as E.RESOURCE.MISSING; any other exception fails it with E.RUNNER.FAILURE."""

    def __init__(self, message: str, code: str = "E.RUNNER.FAILURE") -> None:
        super().__init__(message)
        self.code = code


class TaskCancelled(TaskError):
    """The task was cancelled, is out of time, or is no longer this worker's."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "E.RUNNER.CANCELLED")


class ResourceError(TaskError):
    """The worker refused an operation on a resource: `code` says why."""


class NextError(Exception):
    """What `next` called did not succeed, ran out of time, or could not be called."""

    def __init__(self, code: str, message: str, trace: Optional[Mapping[str, Any]] = None) -> None:
        super().__init__(message)
        self.code = code
        self.trace = dict(trace or {})
