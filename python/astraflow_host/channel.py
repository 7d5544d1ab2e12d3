"""The frames to and from the worker: four bytes of length, big-endian, then JSON. Results overtake the feedback of other calls."""

from __future__ import annotations

import json
import select
import socket
import struct
import threading
from collections import deque
from concurrent.futures import Future
from typing import Any, Iterator, Mapping

from astraflow_sdk.encoding import to_json

_LENGTH = struct.Struct(">I")
_READ_BYTES = 256 * 1024
#: How long prints are gathered into one chunk.
GATHER_SECONDS = 0.02


class ChannelClosed(Exception):
    """The worker is gone."""


class Channel:
    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._socket.setblocking(True)
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        #: Bytes of a frame that was begun: nothing may come between.
        self._begun = b""
        self._urgent: deque[bytes] = deque()
        #: By call, oldest call first.
        self._feedback: dict[int, deque[bytes]] = {}
        self._feedback_count = 0
        self._dropped = 0
        self._waiters: list[Future[None]] = []
        self.feedback_max = 1_000
        #: Gathered output that the writer takes along; set by the output capture.
        self.gather: Any = None
        self._wants_gather = False
        self._is_closed = False
        self._buffer = bytearray()
        threading.Thread(target=self._write_late, name="astraflow-writer", daemon=True).start()

    # ---- reading

    def receive(self) -> "list[dict[str, Any]]":
        """Blocks for at least one frame."""
        while True:
            frames = list(self._take_frames())
            if frames:
                return frames
            data = self._socket.recv(_READ_BYTES)
            if not data:
                raise ChannelClosed()
            self._buffer += data

    def _take_frames(self) -> Iterator[dict[str, Any]]:
        at = 0
        while len(self._buffer) - at >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer, at)
            end = at + _LENGTH.size + length
            if len(self._buffer) < end:
                break
            yield json.loads(bytes(self._buffer[at + _LENGTH.size : end]))
            at = end
        if at > 0:
            del self._buffer[:at]

    # ---- writing, from any thread

    def send(self, frame: Mapping[str, Any]) -> None:
        data = encode(frame)
        with self._lock:
            self._urgent.append(data)
            self._flush()

    def send_feedback(self, call: int, frame: Mapping[str, Any]) -> bool:
        """False where too much waits: it was dropped."""
        data = encode(frame)
        with self._lock:
            if self._feedback_count >= self.feedback_max:
                self._dropped += 1
                return False
            self._feedback.setdefault(call, deque()).append(data)
            self._feedback_count += 1
            self._flush()
            return True

    def send_last(self, call: int, frame: Mapping[str, Any]) -> None:
        """The end of a call, behind all of its feedback and before that of others."""
        data = encode(frame)
        with self._lock:
            waiting = self._feedback.pop(call, ())
            self._feedback_count -= len(waiting)
            self._urgent.extend(waiting)
            self._urgent.append(data)
            self._flush()

    def room(self) -> "Future[None]":
        """Done once less than the limit of feedback waits."""
        future: Future[None] = Future()
        with self._lock:
            if self._feedback_count < self.feedback_max:
                future.set_result(None)
            else:
                self._waiters.append(future)
        return future

    def take_dropped(self) -> int:
        with self._lock:
            dropped, self._dropped = self._dropped, 0
            return dropped

    def gather_soon(self) -> None:
        """The writer calls `gather` within moments."""
        with self._lock:
            if not self._wants_gather:
                self._wants_gather = True
                self._work.notify()

    def _next_data(self) -> bytes:
        if self._begun:
            return self._begun
        if self._urgent:
            return self._urgent.popleft()
        for call, waiting in self._feedback.items():
            data = waiting.popleft()
            self._feedback_count -= 1
            if not waiting:
                del self._feedback[call]
            return data
        return b""

    def _flush(self) -> None:
        """Writes what the pipe takes now; the writer does the rest. The lock is held."""
        while True:
            data = self._next_data()
            if not data:
                break
            try:
                written = self._socket.send(data, socket.MSG_DONTWAIT)
            except (BlockingIOError, InterruptedError):
                written = 0
            except OSError:
                self._is_closed = True
                return
            self._begun = data[written:]
            if self._begun:
                self._work.notify()
                return
        if self._waiters and self._feedback_count < self.feedback_max:
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                if waiter.set_running_or_notify_cancel():
                    waiter.set_result(None)

    def _write_late(self) -> None:
        while True:
            with self._lock:
                while not self._begun and not self._wants_gather:
                    self._work.wait()
                if self._is_closed:
                    return
                has_begun = bool(self._begun)
            if has_begun:
                select.select([], [self._socket], [], 1.0)
                with self._lock:
                    self._flush()
            if self._wants_gather:
                threading.Event().wait(GATHER_SECONDS)
                with self._lock:
                    self._wants_gather = False
                if self.gather is not None:
                    self.gather()


def encode(frame: Mapping[str, Any]) -> bytes:
    data = to_json(frame)
    return _LENGTH.pack(len(data)) + data
