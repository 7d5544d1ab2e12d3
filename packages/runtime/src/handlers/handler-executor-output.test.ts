// What an executor makes of what a handler sends and returns beyond its outputs: places in chains, artifacts, secrets, references.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import type { DispatchPayload } from "@astraflow/protocol";
import type { NodeHandler } from "@astraflow/sdk";
import { describe, expect, it, onTestFinished } from "vitest";
import { executorHarness } from "../../test/executor-harness.ts";

describe("executor", () => {
  it("[W188] the executor runs a handler the same way whatever its place in a chain; the handler can read the chain fields", () => {
    const trace = { host_node_id: "h", middleware_chain: ["n", "m"], chain_index: 0 };
    const handler: NodeHandler = ({ params, attempt, signal }) => ({ params, attempt, isStopped: signal.aborted });
    const places: Partial<DispatchPayload>[] = [{}, trace, { ...trace, chain_index: 7 }, { middleware_chain: [] }];

    const seen = places.map((part) => {
      const b = executorHarness(handler, part);
      b.executor.start(b.attempt);
      return { log: b.log, outcomes: b.outcomes, timers: b.timers.length, key: b.attempt.concurrencyKey };
    });

    for (const one of seen) expect(one).toEqual(seen[0]);
    let place: unknown;
    const b = executorHarness(({ hostNodeId, middlewareChain, chainIndex }) => {
      place = { hostNodeId, middlewareChain, chainIndex };
      return {};
    }, trace);
    b.executor.start(b.attempt);
    expect(place).toEqual({ hostNodeId: "h", middlewareChain: ["n", "m"], chainIndex: 0 });
  });

  it("[W187] the executor marks an artifact as inline when nobody stores its data, since only the result contains it", () => {
    const b = executorHarness(({ resources }) => {
      resources.register({ id: "kept", type: "model" });
      const others = [
        { resource_id: "elsewhere", worker_name: "other", type: "t" },
        { resource_id: "said", type: "t", inline: false },
      ];
      return { text: "hi", artifacts: [{ resource_id: "text", type: "t" }, { resource_id: "kept", type: "t" }, ...others] };
    });

    b.executor.start(b.attempt);

    expect(b.outcomes[0]).toMatchObject({
      artifacts: [
        { resource_id: "text", worker_name: "w", inline: true },
        { resource_id: "kept", worker_name: "w" },
        { resource_id: "elsewhere", worker_name: "other" },
        { resource_id: "said", inline: false },
      ],
    });
    expect((b.outcomes[0] as { artifacts?: object[] }).artifacts?.filter((one) => "inline" in one)).toHaveLength(2);
    expect(b.resources.referencedIds()).toEqual(["kept"]);
  });

  it("[W182] the executor reports a resource that was dropped before the result naming it once more after that result", () => {
    const b = executorHarness(({ resources }) => {
      resources.register({ id: "m", type: "model" });
      const artifact = resources.artifact("m");
      resources.drop("m");
      return { outputs: {}, artifacts: [artifact] };
    });

    b.executor.start(b.attempt);

    expect(b.log).toEqual(["m released", "finished", "settled", "m lost"]);
  });

  it("[W189] the executor masks the secrets that its task was granted: in feedback, in the result and in the error", async () => {
    const secret = "open-sesame-9f2c";
    const parameters = {
      __resourceBindings: { door: { resourceId: "r", value: secret } },
    } as unknown as DispatchPayload["parameters"];
    const b = executorHarness(
      (context) => {
        context.feedback.send({ message: `it is ${secret}` });
        context.feedback.emitText("it is open-");
        context.feedback.emitText("sesame-9f2c, open-");
        return { mine: context.resourceBindings["door"]?.value };
      },
      { parameters },
    );
    b.executor.start(b.attempt);
    const thrower = executorHarness(
      async () => {
        throw new Error(`refused ${secret}`);
      },
      { parameters },
    );
    thrower.executor.start(thrower.attempt);
    await thrower.settled;

    expect(JSON.stringify([b.feedback, b.outcomes, thrower.outcomes])).not.toContain("sesame");
    const texts = b.feedback.flatMap(({ chunks = [] }) => chunks.map(({ text }) => text));
    expect(texts.join("")).toBe("it is ***, open-");
    expect(b.outcomes).toMatchObject([{ status: "SUCCEEDED", result: { mine: "***" } }]);
    expect(b.log).toEqual([
      "the result of task r.1 contained one of its secrets, which was replaced by ***",
      "finished",
      "settled",
    ]);
    expect(thrower.outcomes).toMatchObject([{ type: "error", message: "refused ***" }]);
  });

  it("[W164] the executor extends the life of a resource that a task refers to until the time in the dispatch, and never shortens it", () => {
    const until = (ms: number) => [{ resource_id: "m", worker_name: "w", type: "model", expires_at: new Date(ms).toISOString() }];
    for (const [expiresAt, expected] of [
      [7_200_000, 7_200_000],
      [1_000, 3_600_000],
    ] as const) {
      const b = executorHarness(() => ({}), { resource_refs: until(expiresAt) } as Partial<DispatchPayload>);
      b.resources.register({ id: "m", type: "model" });

      b.executor.start(b.attempt);

      expect(b.resources.get("m")?.expiresAt).toBe(expected);
    }
  });

  it("[W189] the executor masks secrets in calls of next, vendor frames, kept texts and text files, and leaves other files as they are", async () => {
    const secret = "correct horse battery";
    const folder = mkdtempSync(path.join(tmpdir(), "outside-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const outside = path.join(folder, "notes.txt");
    writeFileSync(outside, `key=${secret}`);
    const binary = Buffer.concat([Buffer.from([0, 1]), Buffer.from(secret)]);
    const long = `${"x".repeat(65_530)}${secret} \u20ac\n`;
    const b = executorHarness(
      async (context) => {
        const { resources, ext, workDir } = context;
        void context.next({ [secret]: [secret] });
        await ext.send("ext.vendor.acme.x", { secret });
        writeFileSync(path.join(workDir, "long.txt"), long);
        writeFileSync(path.join(workDir, "image.bin"), binary);
        resources.registerFile("long", path.join(workDir, "long.txt"), { metadata: { secret } });
        resources.registerFile("image", path.join(workDir, "image.bin"));
        resources.registerFile("outside", outside);
        resources.registerJson("json", JSON.stringify({ secret, n: 1 }));
        return {};
      },
      { chain_index: 0, parameters: { __resourceBindings: { key: { resourceId: "r", value: secret } } } as never },
    );

    b.executor.start(b.attempt);
    await b.settled;

    const kept = (id: string) => readFileSync(b.resources.get(id)?.path ?? "");
    expect(b.nextCalls).toEqual(['{"payload":{"***":["***"]}}']);
    expect(b.vendorFrames).toEqual(['{"secret":"***"}']);
    expect(kept("long").toString()).toBe(`${"x".repeat(65_530)}*** \u20ac\n`);
    expect(b.resources.get("long")?.metadata).toEqual({ secret: "***" });
    expect(kept("image")).toEqual(binary);
    expect(kept("outside").toString()).toBe("key=***");
    expect(readFileSync(outside, "utf8")).toBe(`key=${secret}`);
    expect(b.resources.readJson("json")).toEqual({ secret: "***", n: 1 });
  });

  it("[W1490] a file with secrets that was registered by its path, or is a text in UTF-16, is uploaded without them, under a name without them", async () => {
    const secret = "correct horse battery";
    const text = `\uFEFF${"x".repeat(40_000)} key=${secret} \u20ac\n`;
    const big = Buffer.from(text, "utf16le").swap16();
    const b = executorHarness(
      async ({ resources, workDir }) => {
        const keep = (name: string, content: string | Buffer) => {
          writeFileSync(path.join(workDir, name), content);
          resources.register({ id: name, type: "file", path: path.join(workDir, name) });
        };
        keep("plain.txt", "nothing yet");
        keep(`${secret}.txt`, `key=${secret}`);
        keep("little.txt", Buffer.from(text.slice(1), "utf16le"));
        keep("big.txt", big);
        keep("image.bin", Buffer.concat([Buffer.from([0, 0, 1]), Buffer.from(secret)]));
        writeFileSync(path.join(workDir, "plain.txt"), `later ${secret}`);
        for (const { id } of resources.list()) await resources.upload(id);
        return {};
      },
      { parameters: { __resourceBindings: { key: { resourceId: "r", value: secret } } } as never },
    );

    b.executor.start(b.attempt);
    await b.settled;

    const clean = text.replace(secret, "***");
    const uploaded = Object.fromEntries(b.uploads.map(({ filename, content }) => [filename, content]));
    expect(uploaded).toEqual({
      "plain.txt": Buffer.from("later ***"),
      "***.txt": Buffer.from("key=***"),
      "little.txt": Buffer.from(clean.slice(1), "utf16le"),
      "big.txt": Buffer.from(clean, "utf16le").swap16(),
      "image.bin": Buffer.concat([Buffer.from([0, 0, 1]), Buffer.from(secret)]),
    });
  });

  it("[W200] feedback that no scheduler can read ends an attempt with secrets at once, as any other", () => {
    const b = executorHarness(
      async ({ feedback }) => {
        feedback.send({ chunks: "text" } as never);
        await new Promise(() => {});
      },
      { parameters: { __resourceBindings: { key: { resourceId: "r", value: "correct horse battery" } } } as never },
    );

    b.executor.start(b.attempt);

    expect(b.outcomes).toMatchObject([{ type: "error", code: "E.FRAME.INVALID" }]);
    expect(b.attempt.stopSignal.isStopped).toBe(true);
  });

  it("[W202] the executor gives the stack of an error to the outcome, to stderr of the attempt and to the log, without secrets", () => {
    const secret = "correct horse battery";
    const b = executorHarness(
      () => {
        throw new Error(`refused ${secret}`);
      },
      { parameters: { __resourceBindings: { key: { resourceId: "r", value: secret } } } as never },
      import.meta.dirname,
    );

    b.executor.start(b.attempt);

    const stack = expect.stringMatching(/^Error: refused \*{3}\n {4}at .*handler-executor-output\.test\.ts:\d+:\d+/);
    expect(b.outcomes).toMatchObject([{ type: "error", message: "refused ***", stack }]);
    expect(b.feedback).toEqual([{ chunks: [{ channel: "stderr", text: stack }] }]);
    expect(b.log).toEqual(["the handler of task r.1 failed", "finished", "settled"]);
  });
});
