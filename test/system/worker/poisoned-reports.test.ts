import { describe, expect, it } from "vitest";
import { SchedulerApi, startScheduler } from "../harness/installation.ts";
import { makeMisbehavingPackage, misbehavingWorkflow, startMisbehavingWorker } from "../harness/misbehaving-package.ts";

const deepValue = "{ let v = 1; for (let n = 0; n < 100; n++) v = { v }; return v; }";
const manyKeys = "Object.fromEntries(Array.from({ length: 120_000 }, (_, n) => [`k${n}`, n]))";
const report = (input: string) =>
  `async (ctx) => { ctx.feedback.send(${input}); if (!ctx.signal.aborted) await new Promise((go) => ctx.signal.addEventListener("abort", go)); }`;

/** Handlers that return or report what no reader of frames accepts. Those that report wait for their end: the report alone must bring it. */
const poisonedHandlers: Readonly<Record<string, string>> = {
  deepResult: `() => ${deepValue}`,
  manyKeysResult: `() => (${manyKeys})`,
  manyItemsResult: "() => ({ list: Array(250_000).fill(1) })",
  protoKeyResult: '() => JSON.parse(\'{"a":{"__proto__":1}}\')',
  constructorResult: "() => ({ a: { constructor: { prototype: {} } } })",
  nulKeyResult: '() => ({ "a\\u0000b": 1 })',
  surrogateKeyResult: '() => ({ "\\ud800": 1 })',
  hugeNumberResult: '() => ({ n: JSON.rawJSON("1e999") })',
  longNumberResult: '() => ({ n: JSON.rawJSON("1".repeat(200)) })',
  otherResult: '() => ({ outputs: { toJSON: () => "text" } })',
  otherMetadata: "() => ({ outputs: {}, metadata: { toJSON: () => 7 } })",
  artifactSize: '() => ({ artifacts: [{ resource_id: "a", type: "t", size_bytes: -1 }] })',
  artifactName: '() => ({ artifacts: [{ resource_id: "a\\nb", type: "t" }] })',
  artifactTime: '() => ({ artifacts: [{ resource_id: "a", type: "t", expires_at: "soon" }] })',
  artifactCount: '() => ({ artifacts: Array.from({ length: 1_001 }, (_, n) => ({ resource_id: `a${n}`, type: "t" })) })',
  deepFeedback: report(`{ metadata: (() => ${deepValue})() }`),
  manyKeysFeedback: report(`{ metadata: ${manyKeys} }`),
  manyMetrics: report(`{ metrics: ${manyKeys} }`),
  nullMetrics: report("{ metrics: null }"),
  textMetadata: report('{ metadata: "text" }'),
  nullFeedback: report("null"),
  textChunks: report('{ chunks: "text" }'),
  nullChunk: report("{ chunks: [null] }"),
  chunkType: report('{ chunks: [{ channel: "log", text: "a", mime_type: "x".repeat(300) }] }'),
  chunkMetadata: report('{ chunks: [{ channel: "log", text: "a", metadata: [] }] }'),
  largeMessage: report('{ chunks: [{ channel: "log", text: "a", metadata: { text: "x".repeat(17 * 1024 * 1024) } }] }'),
};

/** A host writes what a handler returns as JSON: what was an object that writes itself as something else arrives as that. */
const readableFromHosts = ["longNumberResult", "otherResult", "otherMetadata"];

describe("handlers whose reports no scheduler can read", () => {
  it.each([
    ["thread", []],
    ["process", readableFromHosts],
  ] as const)(
    "[W200] every poisoned result or report from a %s fails its own attempt at once, while the worker keeps its one session and completes other work",
    async (nodeHost, left) => {
      const scheduler = await startScheduler();
      const api = new SchedulerApi(scheduler.http);
      const names = Object.keys(poisonedHandlers).filter((name) => !(left as readonly string[]).includes(name));
      const packages = makeMisbehavingPackage(poisonedHandlers);
      const worker = await startMisbehavingWorker(scheduler.ws, packages, ["--node-host", nodeHost]);

      const runs = await Promise.all(names.map((name) => api.startRun(misbehavingWorkflow(name), name)));
      const ended = await Promise.all(runs.map(({ runId }) => api.waitForRunEnd(runId)));
      const good = await api.waitForRunEnd((await api.startRun(misbehavingWorkflow("use"), "good")).runId);

      for (const [index, { status, nodes, error }] of ended.entries()) {
        const about = names[index];
        expect({ about, status, error }).toEqual({
          about,
          status: "failed",
          error: expect.objectContaining({
            code: expect.stringMatching(/^E\.FRAME\.(INVALID|TOO_LARGE)$/),
            message: expect.stringMatching(/^the (result|feedback) cannot be sent: /),
          }),
        });
        expect({ about, attempts: nodes?.map(({ attempt }) => attempt) }).toEqual({ about, attempts: [1] });
      }
      expect(good.status).toBe("succeeded");
      expect(worker.stderr().match(/"event":"ready"/g)).toHaveLength(1);
      expect(worker.stderr()).not.toContain("word-condemned");
    },
  );
});
