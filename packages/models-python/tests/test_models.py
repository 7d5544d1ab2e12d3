"""Reads the repository's own samples through the models: `python3 -m unittest discover -s tests -t .` in packages/models-python."""

import json
import unittest
from pathlib import Path
from typing import Any, get_type_hints

from astraflow_models import ModelError, first_generation, read, runs, v1, v2

ROOT = Path(__file__).resolve().parents[3]
FIXTURES = ROOT / "packages" / "protocol" / "fixtures"
DIALECTS = {"v1": v1, "first": first_generation, "v2": v2}
PLAIN = (str, int, float, bool)


def load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


class Frames(unittest.TestCase):
    samples = load(FIXTURES / "payloads.json")

    def each(self):
        for dialect, module in DIALECTS.items():
            for kind, sample in self.samples[dialect].items():
                yield module.PAYLOADS[kind], sample

    def test_every_type_has_a_model_and_a_sample(self):
        for dialect, module in DIALECTS.items():
            self.assertEqual(set(module.PAYLOADS), set(self.samples[dialect]))

    def test_every_sample_is_read_and_written_as_it_was(self):
        for model, sample in self.each():
            self.assertEqual(json.loads(json.dumps(read(model, sample, "payload"))), sample)

    def test_a_missing_field_is_named(self):
        for model, sample in self.each():
            for key in model.__required_keys__:
                rest = {name: item for name, item in sample.items() if name != key}
                with self.assertRaisesRegex(ModelError, f"^payload must have {key}$"):
                    read(model, rest, "payload")

    def test_a_field_of_another_kind_is_named(self):
        for model, sample in self.each():
            for key, hint in get_type_hints(model).items():
                if hint in PLAIN:
                    with self.assertRaisesRegex(ModelError, f"^payload\\.{key} must be "):
                        read(model, {**sample, key: {"wrong": 1}}, "payload")

    def test_null_stands_for_an_absent_field_and_unknown_keys_are_kept(self):
        sample = self.samples["v2"]["biz.exec.result"]
        seen = read(v2.ExecResult, {**sample, "duration_ms": None, "later": 1})
        self.assertNotIn("duration_ms", seen)
        self.assertEqual(seen["later"], 1)

    def test_an_envelope_is_read(self):
        frame = {
            "type": "control.ack",
            "id": "a",
            "ts": "2026-01-05T10:00:00Z",
            "tenant": "default",
            "sender": {"role": "worker", "id": "w"},
            "payload": {},
            "ack": {"for": "d-1"},
        }
        for module in DIALECTS.values():
            self.assertEqual(read(module.Envelope, frame), frame)
        with self.assertRaises(ModelError) as caught:
            read(v2.Envelope, {**frame, "sender": {"role": "robot", "id": "w"}}, "frame")
        self.assertEqual(caught.exception.path, "frame.sender.role")

    def test_a_bool_is_no_number_and_a_number_no_bool(self):
        sample = self.samples["v2"]["biz.exec.result"]
        for wrong in (True, 1.5, "3"):
            with self.assertRaises(ModelError):
                read(v2.ExecResult, {**sample, "duration_ms": wrong})
        self.assertEqual(read(v2.ExecResult, {**sample, "duration_ms": 3.0})["duration_ms"], 3)


class Runs(unittest.TestCase):
    def test_workflows_are_read_whole_subgraphs_too(self):
        for name in ("workflow.full.json", "workflow.sample.json"):
            workflow = load(FIXTURES / name)
            self.assertEqual(read(runs.Workflow, workflow), workflow)

    def test_a_start_is_read_as_it_is_sent(self):
        request = load(ROOT / "docs" / "examples" / "run-request.json")
        self.assertEqual(read(runs.RunStartRequest, request), request)

    def test_a_run_is_read_and_what_is_wrong_deep_inside_is_named(self):
        run = {"runId": "r", "status": "running", "definitionHash": "d", "clientId": "c", "createdAt": "2026-01-05T10:00:00Z"}
        page = {"items": [run, run], "nextCursor": None, "asOf": 7}
        self.assertEqual(read(runs.RunList, page), page)
        with self.assertRaises(ModelError) as caught:
            read(runs.RunList, {**page, "items": [run, {**run, "status": "paused"}]}, "page")
        self.assertEqual(caught.exception.path, "page.items.1.status")


if __name__ == "__main__":
    unittest.main()
