import { expect, it } from "vitest";
import { createLink } from "./link.ts";
import { createFakeOutside } from "./testing/fake-outside.ts";
import { logWorkerNews } from "./worker-news.ts";

it("[D50] a worker that is late, lost, strained or full, and one that is well again, is a line in the log with its tenant and id", () => {
  const outside = createFakeOutside();
  const link = createLink(() => undefined, { report: () => undefined });
  const news = { type: "worker", tenant: "acme", worker: "acme/w/1", event: "worker.liveness" } as const;
  const stop = logWorkerNews(link, outside);

  link.deliver([{ ...news, isGood: false, data: { from: "fresh", to: "warn" } }]);
  link.deliver([{ ...news, isGood: true, data: { from: "warn", to: "fresh" } }]);
  stop();
  link.deliver([{ ...news, isGood: false, data: {} }]);

  expect(outside.lines).toEqual([
    { level: "warn", event: "worker.liveness", tenant: "acme", sender: { id: "w/1" }, from: "fresh", to: "warn" },
    { level: "info", event: "worker.liveness", tenant: "acme", sender: { id: "w/1" }, from: "warn", to: "fresh" },
  ]);
});
