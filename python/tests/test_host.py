"""The parts of the host that need no worker."""

import io
import json
import logging
import pathlib
import socket
import struct
import sys
import tempfile
import threading
import unittest

from astraflow_host.channel import Channel, ChannelClosed
from astraflow_host.errors import describe, package_stack
from astraflow_host.module_path import merge_same_names
from astraflow_host.output import OutputCapture, current_call
from astraflow_sdk.encoding import to_json
from astraflow_sdk.invocation import LoadError, load_entrypoint, read_mode


def read_frames(connection, count):
    stream = connection.makefile("rb")
    for _ in range(count):
        (length,) = struct.unpack(">I", stream.read(4))
        yield json.loads(stream.read(length))


class TestChannel(unittest.TestCase):
    def setUp(self):
        near, self.far = socket.socketpair()
        self.addCleanup(near.close)
        self.addCleanup(self.far.close)
        self.channel = Channel(near)

    def test_frames_arrive_whole_however_they_are_cut(self):
        data = json.dumps({"type": "start", "text": "ä😀"}).encode()
        for byte in struct.pack(">I", len(data)) + data:
            self.far.send(bytes([byte]))
        self.assertEqual(self.channel.receive(), [{"type": "start", "text": "ä😀"}])
        self.far.shutdown(socket.SHUT_WR)
        with self.assertRaises(ChannelClosed):
            self.channel.receive()

    def test_a_result_overtakes_the_feedback_of_others_and_not_its_own(self):
        large = "x" * 4_000_000
        self.channel.send_feedback(1, {"n": "large", "text": large})
        for n in range(3):
            self.channel.send_feedback(2, {"n": f"other {n}"})
        self.channel.send_feedback(3, {"n": "own"})
        self.channel.send_last(3, {"n": "result"})
        order = [frame["n"] for frame in read_frames(self.far, 6)]
        self.assertEqual(order, ["large", "own", "result", "other 0", "other 1", "other 2"])

    def test_feedback_beyond_the_limit_is_dropped_and_waited_for(self):
        self.channel.feedback_max = 2
        self.channel.send_feedback(1, {"n": "large", "text": "x" * 4_000_000})
        taken = [self.channel.send_feedback(2, {"n": n}) for n in range(4)]
        room = self.channel.room()
        self.assertEqual((taken, room.done()), ([True, True, False, False], False))
        self.assertEqual([frame["n"] for frame in read_frames(self.far, 3)], ["large", 0, 1])
        room.result(timeout=60)
        self.assertEqual(self.channel.take_dropped(), 2)

    def test_threads_may_write_at_once(self):
        threads = [threading.Thread(target=lambda n=n: [self.channel.send({"n": n, "i": i}) for i in range(50)]) for n in range(4)]
        for thread in threads:
            thread.start()
        frames = list(read_frames(self.far, 200))
        for thread in threads:
            thread.join()
        for n in range(4):
            self.assertEqual([frame["i"] for frame in frames if frame["n"] == n], list(range(50)))


class TestOutput(unittest.TestCase):
    def test_text_is_gathered_by_call_and_large_text_is_given_at_once(self):
        given = []
        capture = OutputCapture(lambda *what: given.append(what), lambda: None)
        token = current_call.set(1)
        self.addCleanup(current_call.reset, token)
        capture.write("stdout", "a")
        capture.write("stdout", "b")
        capture.write("stderr", "x" * 20_000)
        self.assertEqual(given, [(1, "stderr", "x" * 20_000)])
        capture.flush(2)
        capture.flush(1)
        self.assertEqual(given[1:], [(1, "stdout", "ab")])


class TestValues(unittest.TestCase):
    def test_values_with_one_form_in_json_are_written(self):
        from dataclasses import dataclass
        from datetime import datetime
        from pathlib import Path

        @dataclass
        class Point:
            x: int

        self.assertEqual(json.loads(to_json({"p": Point(1), "f": Path("a"), "t": datetime(2025, 1, 2)})), {"p": {"x": 1}, "f": "a", "t": "2025-01-02T00:00:00"})
        self.assertEqual(to_json("\ud800"), b'"\\ud800"')
        for value in (float("nan"), {1}, b"x"):
            with self.assertRaises((TypeError, ValueError)):
                to_json(value)

    def test_modes_and_entrypoints_are_read_as_adapters_in_the_field_write_them(self):
        self.assertEqual([read_mode(None, word) for word in ("event_loop", "ASYNC", "thread", "odd", 1)], ["inline", "inline", "thread", "auto", "auto"])
        self.assertIs(load_entrypoint("json"), json)
        self.assertIsInstance(load_entrypoint("io:StringIO"), io.StringIO)
        with self.assertRaises(LoadError):
            load_entrypoint("json:nothing")

    def test_errors_are_described_without_frames_of_others(self):
        try:
            logging.getLevelName.nothing  # type: ignore[attr-defined]
        except AttributeError as error:
            self.assertIsNone(package_stack(error, "/nowhere"))
            self.assertTrue(describe(error).startswith("AttributeError: "))
        self.assertIn("sys.exit(3)", describe(SystemExit(3)))


class TestAliases(unittest.TestCase):
    def test_older_import_paths_lead_to_the_sdk(self):
        import pathlib
        import sys

        aliases = str(pathlib.Path(__file__).parent.parent / "aliases")
        sys.path.append(aliases)
        self.addCleanup(sys.path.remove, aliases)
        from shared.models.ws.feedback import FeedbackChannel
        from worker.agent.runner.context import ExecutionContext

        import astraflow_sdk

        self.assertIs(FeedbackChannel, astraflow_sdk.FeedbackChannel)
        self.assertIs(ExecutionContext, astraflow_sdk.ExecutionContext)

    def test_an_adapter_may_lie_in_a_package_named_like_its_dependency(self):
        for own_init in (True, False):
            with self.subTest(own_init=own_init), tempfile.TemporaryDirectory() as root:
                name = f"same_name_{own_init}".lower()
                own, site = pathlib.Path(root, "adapters", name), pathlib.Path(root, "site", name)
                own.mkdir(parents=True)
                site.mkdir(parents=True)
                (own / "adapter.py").write_text(f"from {name}.dependency import answer\n")
                (site / "__init__.py").write_text("")
                (site / "dependency.py").write_text("answer = 42\n")
                if own_init:
                    (own / "__init__.py").write_text("")
                path = list(sys.path)
                try:
                    sys.path[:0] = [str(own.parent), root, str(site.parent)]
                    merge_same_names(f"{name}.adapter:answer", root)
                    self.assertEqual(load_entrypoint(f"{name}.adapter:answer"), 42)
                finally:
                    sys.path[:] = path


if __name__ == "__main__":
    unittest.main()
