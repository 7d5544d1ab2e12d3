from worker.agent.runner.context import ExecutionContext
from shared.models.ws.feedback import FeedbackChannel


class SummariseAdapter:
    async def async_run(self, ctx: ExecutionContext):
        reporter = ctx.feedback

        if reporter:
            await reporter.send(
                stage="running",
                progress=0.05,
                message="Downloading source articles…",
            )

        articles = await self._load_articles(ctx.params["urls"])

        if reporter:
            reporter.send_nowait(
                stage="streaming",
                message="Tokenising input",
                chunks=[{"channel": FeedbackChannel.log, "text": "Loaded %d articles" % len(articles)}],
            )

        summary_tokens = []
        async for token in self._llm_stream(articles):
            summary_tokens.append(token)
            if reporter:
                reporter.send_nowait(
                    stage="streaming",
                    chunks=[{"channel": FeedbackChannel.llm, "text": token}],
                    progress=min(0.95, 0.05 + len(summary_tokens) / 2000),  # crude heuristic
                )

        summary = "".join(summary_tokens)

        if reporter:
            await reporter.send(
                stage="finalising",
                progress=0.99,
                message="Streaming complete, packaging result",
            )

        return {
            "status": "SUCCEEDED",
            "outputs": {"summary": summary},
            "metadata": {"token_count": len(summary_tokens)},
        }
