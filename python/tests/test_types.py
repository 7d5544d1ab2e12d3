"""The types are those of what the SDK sends, and can be imported by every Python that runs adapters."""

import importlib
import sys
import unittest
from unittest import mock

from astraflow_sdk import types
from astraflow_sdk.testing import run_adapter


def adapter(context):
    context.feedback.emit_text("hello", stage="begin", progress=0.5, metadata={"n": 1})
    return {"n": 1}


class Types(unittest.TestCase):
    def test_feedback_that_the_sdk_sends_has_the_fields_of_its_types(self):
        reports = run_adapter(adapter).raise_error().reports

        self.assertTrue(reports)
        for report in reports:
            self.assertLessEqual(set(report), set(types.TaskFeedback.__annotations__))
            for chunk in report.get("chunks", ()):
                self.assertLessEqual(set(chunk), set(types.TaskFeedbackChunks.__annotations__))

    def test_the_module_needs_nothing_that_python_3_10_lacks(self):
        with mock.patch.object(sys, "version_info", (3, 10, 0, "final", 0)):
            old = importlib.reload(types)
            self.assertEqual(old.TaskFeedback.__annotations__["stage"], str)
            self.assertFalse(hasattr(old.NotRequired, "__origin__"))
        importlib.reload(types)


if __name__ == "__main__":
    unittest.main()
