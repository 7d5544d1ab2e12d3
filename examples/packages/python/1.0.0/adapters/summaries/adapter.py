"""An async adapter that streams a summary, and a sync one that finds keywords."""

import asyncio
import re
from typing import Any, AsyncIterator, List, Mapping

from astraflow_sdk import ExecutionContext, FeedbackChannel, TaskError

from summaries.articles import check_url, fetch_article
from summaries.text import keywords, summarise

_ARTICLES_MAX = 50


class SummariseAdapter:
    """Picks the sentences that say most of some articles, and says them word by word."""

    async def async_run(self, ctx: ExecutionContext):
        reporter = ctx.feedback
        await reporter.send(stage="running", progress=0.05, message="Loading articles…")

        articles = await self._load_articles(ctx.params)
        reporter.send_nowait(
            stage="streaming",
            chunks=[{"channel": FeedbackChannel.log, "text": "Loaded %d articles\n" % len(articles)}],
        )

        sentences = summarise(articles, _whole_number(ctx.params, "sentences", 3))
        tokens: List[str] = []
        total = sum(len(sentence.split()) for sentence in sentences)
        async for token in self._stream(sentences, _whole_number(ctx.params, "tokenDelayMs", 0, least=0)):
            tokens.append(token)
            reporter.send_nowait(
                stage="streaming",
                chunks=[{"channel": FeedbackChannel.llm, "text": token}],
                progress=min(0.95, 0.05 + 0.9 * len(tokens) / total),
                metadata={"results": {"summary": "".join(tokens)}},
            )

        await reporter.send(stage="finalising", progress=0.99, metrics={"tokens": len(tokens)})
        return {
            "status": "SUCCEEDED",
            "outputs": {"summary": "".join(tokens), "sentences": sentences, "articleCount": len(articles)},
            "metadata": {"token_count": len(tokens), "idempotency_key": ctx.idempotency_key},
        }

    async def _load_articles(self, params: Mapping[str, Any]) -> List[str]:
        texts, urls = _texts(params, "texts"), _texts(params, "urls")
        if not 0 < len(texts) + len(urls) <= _ARTICLES_MAX:
            raise TaskError(f"give 1 to {_ARTICLES_MAX} articles, as urls or texts", "E.PARAMS.INVALID")
        for url in urls:
            check_url(url)
        # The loop of the host goes on while pages are fetched.
        return texts + list(await asyncio.gather(*(asyncio.to_thread(fetch_article, url) for url in urls)))

    async def _stream(self, sentences: List[str], delay_ms: int) -> AsyncIterator[str]:
        words = re.findall(r"\S+\s*", " ".join(sentences))
        for word in words:
            await asyncio.sleep(delay_ms / 1000)
            yield word


class KeywordsAdapter:
    """Runs in a thread of the host: sync code reports without waiting."""

    def run(self, ctx: ExecutionContext):
        text = str(ctx.params.get("text") or "")
        found = keywords(text, _whole_number(ctx.params, "count", 10))
        for index, one in enumerate(found):
            ctx.cancellation.raise_if_set()
            ctx.feedback.emit_text("%(word)s: %(count)d\n" % one)
            ctx.feedback.send_nowait(stage="counting", progress=(index + 1) / len(found))
        return {"keywords": [one["word"] for one in found], "counts": found}


def _texts(params: Mapping[str, Any], name: str) -> List[str]:
    value = params.get(name) or []
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(one, str) for one in values):
        raise TaskError(f"{name} must be a list of texts", "E.PARAMS.INVALID")
    return values


def _whole_number(params: Mapping[str, Any], name: str, default: int, least: int = 1) -> int:
    value = params.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise TaskError(f"{name} must be a whole number from {least} on", "E.PARAMS.INVALID")
    return value
