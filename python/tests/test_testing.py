import asyncio
import threading
import time
import unittest

from astraflow_sdk import FeedbackChannel, NextError, TaskError, handles
from astraflow_sdk.testing import MemoryResources, run_adapter


class Summarise:
    async def async_run(self, ctx):
        await ctx.feedback.send(stage="running", progress=0.1)
        for token in ("a", "b"):
            ctx.feedback.send_nowait(chunks=[{"channel": FeedbackChannel.llm, "text": token}])
        await ctx.feedback.emit_text("done")
        return {"status": "SUCCEEDED", "outputs": {"summary": "ab"}, "metadata": {"tokens": 2}}

    @handles("test.count")
    def count(self, ctx):
        return {"n": len(ctx.params["items"])}


class TestHarness(unittest.TestCase):
    def test_records_result_and_feedback_of_a_coroutine(self):
        run = run_adapter(Summarise(), {"urls": []}).raise_error()
        self.assertEqual((run.status, run.outputs, run.metadata), ("SUCCEEDED", {"summary": "ab"}, {"tokens": 2}))
        self.assertEqual((run.stages, run.progress, run.text("llm"), run.text()), (["running"], [0.1], "ab", "done"))

    def test_runs_sync_handlers_in_a_thread_and_finds_them_by_name(self):
        self.assertEqual(run_adapter(Summarise, {"items": [1, 2]}, handler="count").outputs, {"n": 2})
        self.assertEqual(run_adapter(Summarise, {"items": []}, handler="any", node_type="test.count").outputs, {"n": 0})
        where = lambda ctx: {"main": threading.current_thread() is threading.main_thread()}
        self.assertEqual(run_adapter(where).outputs, {"main": False})
        self.assertEqual(run_adapter(where, mode="inline").outputs, {"main": True})

    def test_shows_errors_and_results_that_are_none(self):
        def fail(ctx):
            raise TaskError("no", "E.RESOURCE.MISSING")

        self.assertEqual(run_adapter(fail).error.code, "E.RESOURCE.MISSING")
        self.assertEqual(run_adapter(lambda ctx: [1]).status, "FAILED")
        self.assertIsInstance(run_adapter(lambda ctx: {"value": {1}}).error, TypeError)
        self.assertEqual(run_adapter(lambda ctx: {"status": "skip"}).status, "SKIPPED")
        self.assertEqual(run_adapter(lambda ctx: {"status": "odd"}).status, "FAILED")
        with self.assertRaises(TypeError):
            run_adapter(object())

    def test_answers_next_of_a_middleware(self):
        async def around(ctx):
            return {"inner": await ctx.next({"text": "x"}), "at": ctx.chain_index}

        def refuse(arguments):
            raise NextError("next_failed", "no")

        self.assertEqual(run_adapter(around, call_next=lambda given: {"got": given}).outputs, {"inner": {"got": {"payload": {"text": "x"}}}, "at": 0})
        self.assertEqual(run_adapter(around, call_next=refuse).error.code, "next_failed")
        self.assertEqual(run_adapter(around).error.code, "next_no_chain")

    def test_keeps_resources_and_their_values(self):
        def keep(ctx):
            (ctx.data_dir / "a").write_text("text")
            ctx.resource_registry.register_file("file", ctx.data_dir / "a")
            ctx.resource_registry.register("page", "page", value=["v"], scope="s")
            return {"artifacts": [ctx.resource_registry.to_artifact_descriptor("file")]}

        resources = MemoryResources()
        self.assertEqual(run_adapter(keep, resources=resources).artifacts[0]["size_bytes"], 4)
        use = lambda ctx: {"value": ctx.leased_resources[0].value, "in_use": ctx.leased_resources[0].in_use}
        self.assertEqual(run_adapter(use, resources=resources, resource_refs=["page"]).outputs, {"value": ["v"], "in_use": 1})

    def test_gives_secrets_names_and_a_deadline(self):
        def look(ctx):
            return {"secrets": ctx.secrets, "attempt": ctx.attempt, "key": ctx.idempotency_key, "left": ctx.seconds_left > 0}

        run = run_adapter(look, secrets={"token": "s"}, attempt=3, task_id="t")
        self.assertEqual(run.outputs, {"secrets": {"token": "s"}, "attempt": 3, "key": "t", "left": True})

    def test_cancels_coroutines_and_tells_threads(self):
        async def sleep(ctx):
            await asyncio.sleep(3600)

        def wait(ctx):
            ctx.cancellation.wait(3600)
            ctx.cancellation.raise_if_set()

        self.assertEqual(run_adapter(sleep, cancel_after=0).status, "CANCELLED")
        self.assertEqual(run_adapter(wait, cancel_after=0).error.code, "E.RUNNER.CANCELLED")


if __name__ == "__main__":
    unittest.main()
