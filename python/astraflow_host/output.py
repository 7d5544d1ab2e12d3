"""What adapters print and log: found out whose it is, and given to the call that printed it."""

from __future__ import annotations

import contextvars
import io
import logging
import sys
import threading
from typing import Any, Callable, Optional

#: The call that the present code belongs to; threads that an adapter starts inherit it.
current_call: "contextvars.ContextVar[Optional[int]]" = contextvars.ContextVar("astraflow_call", default=None)

#: Text of one chunk; more is sent at once.
_TEXT_CHARS_MAX = 16 * 1024

#: Gives text to a call, or to nobody: call, channel, text.
Give = Callable[[Optional[int], str, str], None]


class OutputCapture:
    """Gathers small pieces of text, so that a program that prints much does not send a frame for each line."""

    def __init__(self, give: Give, gather_soon: Callable[[], None]) -> None:
        self._give = give
        self._gather_soon = gather_soon
        self._lock = threading.Lock()
        self._texts: dict[tuple[Optional[int], str], list[str]] = {}
        self._sizes: dict[tuple[Optional[int], str], int] = {}

    def install(self) -> None:
        sys.stdout = CapturedStream(self, "stdout", 1)  # type: ignore[assignment]
        sys.stderr = CapturedStream(self, "stderr", 2)  # type: ignore[assignment]
        handler = CallLogHandler(self)
        handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
        logging.getLogger().addHandler(handler)
        logging.getLogger().setLevel(logging.INFO)
        _inherit_call_in_threads()

    def write(self, channel: str, text: str) -> None:
        if not text:
            return
        key = (current_call.get(), channel)
        with self._lock:
            self._texts.setdefault(key, []).append(text)
            size = self._sizes.get(key, 0) + len(text)
            self._sizes[key] = size
        if size >= _TEXT_CHARS_MAX:
            self._flush_key(key)
        else:
            self._gather_soon()

    def flush(self, call: Optional[int] = None, *, everything: bool = False) -> None:
        """Of one call, before its next report; or of all."""
        with self._lock:
            keys = [key for key in self._texts if everything or key[0] == call]
        for key in keys:
            self._flush_key(key)

    def _flush_key(self, key: "tuple[Optional[int], str]") -> None:
        with self._lock:
            texts = self._texts.pop(key, None)
            self._sizes.pop(key, None)
        if texts:
            self._give(key[0], key[1], "".join(texts))


class CapturedStream(io.TextIOBase):
    """Stands in for sys.stdout and sys.stderr."""

    encoding = "utf-8"
    errors = "replace"

    def __init__(self, capture: OutputCapture, channel: str, descriptor: int) -> None:
        self._capture = capture
        self._channel = channel
        self._descriptor = descriptor
        self.buffer = CapturedBytes(self)

    def write(self, text: str) -> int:
        self._capture.write(self._channel, str(text))
        return len(text)

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        return self._descriptor

    def flush(self) -> None:
        """Within moments, as everything."""


class CapturedBytes(io.RawIOBase):
    def __init__(self, stream: CapturedStream) -> None:
        self._stream = stream

    def write(self, data: Any) -> int:
        text = bytes(data)
        self._stream.write(text.decode("utf-8", "replace"))
        return len(text)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()


class CallLogHandler(logging.Handler):
    """Log records become text of the channel `log`."""

    def __init__(self, capture: OutputCapture) -> None:
        super().__init__()
        self._capture = capture

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._capture.write("log", self.format(record) + "\n")
        except Exception:
            self.handleError(record)


def _inherit_call_in_threads() -> None:
    start = threading.Thread.start

    def start_in_context(thread: threading.Thread) -> None:
        context = contextvars.copy_context()
        run = thread.run
        thread.run = lambda: context.run(run)  # type: ignore[method-assign]
        start(thread)

    threading.Thread.start = start_in_context  # type: ignore[method-assign]
