"""Feedback of a running task: progress, messages, and chunks of output."""

from __future__ import annotations

import base64
from enum import Enum
from typing import Any, Awaitable, Callable, Generator, Iterable, Mapping, Optional, Protocol, Union


class FeedbackChannel(str, Enum):
    """The channels that readers know; any other name works too."""

    log = "log"
    stdout = "stdout"
    stderr = "stderr"
    llm = "llm"
    metric = "metric"
    custom = "custom"

    def __str__(self) -> str:
        return self.value


Channel = Union[FeedbackChannel, str]


class FeedbackSink(Protocol):
    """Where feedback goes: to the worker, or to the record of a test."""

    def post(self, feedback: Mapping[str, Any]) -> None:
        """Never waits, from any thread. What finds no room is dropped, and counted."""

    def wait_for_room(self) -> Awaitable[None]:
        """Resolves once there is room again."""


class FeedbackPublisher:
    """`ctx.feedback`. Everything here may be called from any thread."""

    def __init__(self, sink: FeedbackSink) -> None:
        self._sink = sink

    async def send(
        self,
        stage: Optional[str] = None,
        progress: Optional[float] = None,
        message: Optional[str] = None,
        chunks: Optional[Iterable[Mapping[str, Any]]] = None,
        metrics: Optional[Mapping[str, float]] = None,
        metadata: Optional[Mapping[str, Any]] = None,
    ) -> None:
        """Reports, and waits while too much feedback is on its way."""
        await self._sink.wait_for_room()
        self._sink.post(_describe(stage, progress, message, chunks, metrics, metadata))

    def send_nowait(
        self,
        stage: Optional[str] = None,
        progress: Optional[float] = None,
        message: Optional[str] = None,
        chunks: Optional[Iterable[Mapping[str, Any]]] = None,
        metrics: Optional[Mapping[str, float]] = None,
        metadata: Optional[Mapping[str, Any]] = None,
    ) -> None:
        """Reports without waiting: for sync code, and where a lost report does no harm."""
        self._sink.post(_describe(stage, progress, message, chunks, metrics, metadata))

    def emit_text(
        self,
        text: str,
        channel: Channel = FeedbackChannel.log,
        stage: Optional[str] = None,
        progress: Optional[float] = None,
        metadata: Optional[Mapping[str, Any]] = None,
    ) -> "Emitted":
        """One piece of text. It is on its way at once; `await` waits, as `send` does, while there is no room."""
        self._sink.post(_describe(stage, progress, None, [{"channel": channel, "text": text}], None, metadata))
        return Emitted(self._sink.wait_for_room)


class Emitted:
    """May be awaited, and need not be."""

    def __init__(self, wait_for_room: Callable[[], Awaitable[None]]) -> None:
        self._wait_for_room = wait_for_room

    def __await__(self) -> Generator[Any, None, None]:
        return self._wait_for_room().__await__()


def _describe(
    stage: Optional[str],
    progress: Optional[float],
    message: Optional[str],
    chunks: Optional[Iterable[Mapping[str, Any]]],
    metrics: Optional[Mapping[str, float]],
    metadata: Optional[Mapping[str, Any]],
) -> dict[str, Any]:
    given = {
        "stage": stage,
        "progress": progress,
        "message": message,
        "chunks": None if chunks is None else [_describe_chunk(chunk) for chunk in chunks],
        "metrics": None if metrics is None else dict(metrics),
        "metadata": None if metadata is None else dict(metadata),
    }
    return {key: value for key, value in given.items() if value is not None}


def _describe_chunk(chunk: Mapping[str, Any]) -> dict[str, Any]:
    described = {key: value for key, value in chunk.items() if value is not None}
    channel = described.get("channel", "log")
    described["channel"] = channel.value if isinstance(channel, Enum) else str(channel)
    # The worker numbers the chunks of a task.
    described.pop("index", None)
    data = described.pop("data", None)
    if isinstance(data, (bytes, bytearray)):
        described["data_base64"] = base64.b64encode(data).decode("ascii")
    if "text" in described and not isinstance(described["text"], str):
        described["text"] = str(described["text"])
    return described
