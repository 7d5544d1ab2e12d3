import { describe, expect, it } from "vitest";
import { createSchemaReader } from "../schema/schema-reader.ts";
import { EventSchema, type EventType } from "./server-events.ts";

describe("events", () => {
  const envelope = {
    version: "v1",
    id: "12",
    occurredAt: "2026-01-05T09:00:00Z",
    scope: { tenant: "default", runId: "r-1", clientSessionId: "c-1" },
    replayed: true,
  };
  const node = { runId: "r-1", nodeId: "n-1" };
  const at = "2026-01-05T09:00:00Z";
  const artifact = { runId: "r-1", artifactId: "a-1", nodeId: "n-1", sizeBytes: 3 };
  const run = { runId: "r-1", status: "running", definitionHash: "h", clientId: "c-1" };
  const samples: Record<EventType, object> = {
    "run.status": { runId: "r-1", status: "running", startedAt: at, reason: "go" },
    "run.snapshot": { run, nodes: [{ nodeId: "n-1", taskId: "t-1", status: "queued" }] },
    "run.metrics": { runId: "r-1", metric: "tokens", value: 3, tags: {} },
    "node.state": { ...node, state: { stage: "running", progress: 0.5, lastUpdatedAt: at } },
    "node.status": { ...node, status: "dispatching", workerName: "w1", seq: 1, ackPending: true },
    "node.error": { ...node, error: { code: "E.TIMEOUT", message: "late" } },
    "node.warning": { ...node, warning: { code: "E.RESULT.INVALID", message: "no status", field: "/results/status" } },
    "node.result.snapshot": { ...node, revision: 1, format: "json", content: {}, artifacts: [], complete: true },
    "node.result.delta": {
      ...node,
      revision: 1,
      sequence: 2,
      operation: "append",
      path: "/channels/llm",
      payload: { text: "a" },
      chunkMeta: { channel: "llm" },
      terminal: false,
    },
    "artifact.ready": artifact,
    "artifact.removed": artifact,
    "worker.heartbeat": {
      workerName: "w1",
      at,
      queues: [],
      instanceId: "i-1",
      hostname: "box",
      version: "1",
      connected: true,
      registered: true,
    },
    "worker.package": { workerName: "w1", package: "p", version: "1.0.0", status: "installed" },
    "wire.frame": {
      workerName: "w1",
      session: "s-1",
      direction: "in",
      type: "biz.exec.result",
      id: "f-1",
      seq: 0,
      corr: "r-1.0#7",
      ack: { request: true },
      bytes: 300,
      run: "r-1",
      task: "r-1.0",
      skipped: 3,
    },
    "command.ack": { commandId: "c", workerName: "w1", receivedAt: at },
    "command.error": { commandId: "c", workerName: "w1", error: { code: "E.TIMEOUT", message: "late" } },
  };
  const reader = createSchemaReader(EventSchema, { code: "E.INTERNAL", subject: "event", unknownKeys: "refuse" });

  it.each(Object.entries(samples))("[C16] an event of type %s is read with its envelope and its data", (type, data) => {
    const event = { ...envelope, type, data: { kind: type, ...data } };

    expect(reader.read(event)).toEqual(event);
    expect(reader.read({ ...event, data: { ...event.data, kind: "run.unheard" } })).toMatchObject({ code: "E.INTERNAL" });
    expect(reader.read({ ...event, version: "v2" })).toMatchObject({ details: { path: "event.version" } });
  });

  it("[A300] a volatile event has no id and is marked as volatile in meta, beside whatever else meta contains", () => {
    const { id: _, replayed: __, ...rest } = envelope;
    const data = { kind: "worker.heartbeat", ...samples["worker.heartbeat"] };
    const event = { ...rest, type: "worker.heartbeat", meta: { volatile: true, more: 1 }, data };

    expect(reader.read(event)).toEqual(event);
    expect(reader.read({ ...event, meta: { volatile: "yes" } })).toMatchObject({ details: { path: "event.meta.volatile" } });
  });
});
