import type { Worker } from "@astraflow/protocol";
import { expect, it } from "vitest";
import { findWorker } from "./workers-command.ts";

const worker = (id: string, instanceId: string): Worker => ({
  id,
  instanceId,
  lastHeartbeatAt: "2026-01-01T00:00:00Z",
  queues: [],
});
const workers = [worker("berlin", "aaa-1"), worker("berlin-2", "bbb-2"), worker("tokyo", "abc-3")];

it("[L7] a worker is found by name or instance id, shortened while unique", () => {
  expect(findWorker("berlin", workers).instanceId).toBe("aaa-1");
  expect(findWorker("bbb", workers).id).toBe("berlin-2");
  expect(findWorker("to", workers).id).toBe("tokyo");
  expect(() => findWorker("berl", workers)).toThrow(/fits 2 workers/);
  expect(() => findWorker("paris", workers)).toThrow(/No worker is called "paris"/);
});
