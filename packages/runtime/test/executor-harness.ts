// An executor with one handler and nothing real around it but a folder: what it sends is recorded, its timers wait to be called.

import { mkdtempSync, readFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import type { DispatchPayload } from "@astraflow/protocol";
import type { FeedbackInput, NodeHandler } from "@astraflow/sdk";
import { afterEach } from "vitest";
import { createAttempt, type LocalAttempt } from "../src/attempts/attempt.ts";
import type { AttemptOutcome } from "../src/attempts/outcome.ts";
import { HandlerRegistry } from "../src/handlers/handler.ts";
import { HandlerExecutor } from "../src/handlers/handler-executor.ts";
import { VendorFrameHub } from "../src/handlers/vendor-frames.ts";
import { resourceDefaults } from "../src/resources/resource.ts";
import { ResourceFiles } from "../src/resources/resource-files.ts";
import { ResourceRegistry } from "../src/resources/resource-registry.ts";

const roots: string[] = [];
afterEach(async () => {
  for (const root of roots.splice(0)) await rm(root, { recursive: true, force: true });
});

interface UploadedFile {
  readonly filename: string;
  readonly content: Buffer;
}

const createRegistry = (dir: string, log: string[], uploads: UploadedFile[]) =>
  new ResourceRegistry(
    {
      wallClock: () => 0,
      after: () => () => {},
      reportProblem: () => {},
      resourceRemoved: (id, reason) => log.push(`${id} ${reason}`),
      async transferFile(transfer) {
        const content = readFileSync(transfer.path);
        if (transfer.type === "upload") uploads.push({ filename: transfer.filename, content });
        const { length: sizeBytes } = content;
        return {
          resourceId: `stored-${uploads.length}`,
          downloadUrl: "",
          filename: path.basename(transfer.path),
          sha256: "",
          sizeBytes,
        };
      },
    },
    new ResourceFiles(path.join(dir, "kept"), dir),
    { ...resourceDefaults, workerName: "w" },
  );

export function executorHarness(handler: NodeHandler, part: Partial<DispatchPayload> = {}, packageDir?: string) {
  const workRoot = mkdtempSync(path.join(tmpdir(), "executor-"));
  roots.push(workRoot);
  const handlers = new HandlerRegistry();
  handlers.add(
    { packageName: "demo", packageVersion: "1.0.0", nodeType: "demo.x" },
    { handler, config: { strict: true }, ...(packageDir !== undefined && { packageDir }) },
  );
  const usual = {
    run_id: "r",
    task_id: "r.1",
    node_id: "n",
    node_type: "demo.x",
    package_name: "demo",
    package_version: "1.0.0",
  };
  const attempt = createAttempt({ ...usual, parameters: { a: 1 }, constraints: {}, ...part }, 5, 0);
  const log: string[] = [];
  const outcomes: AttemptOutcome[] = [];
  const feedback: FeedbackInput[] = [];
  const nextCalls: string[] = [];
  const vendorFrames: string[] = [];
  const hub = new VendorFrameHub();
  hub.connect({
    sendFrame: async ({ payload }) => vendorFrames.push(payload) > 0,
    listenedTypesChanged: () => {},
    reportProblem: () => {},
  });
  const timers: { ms: number; call: () => void; isCancelled: boolean }[] = [];
  let now = 0;
  let signalSettled = () => {};
  const settled = new Promise<void>((resolve) => {
    signalSettled = resolve;
  });
  const uploads: UploadedFile[] = [];
  const resources = createRegistry(workRoot, log, uploads);
  const executor = new HandlerExecutor(
    {
      now: () => now,
      wallClock: () => now,
      after(ms, call) {
        const timer = { ms, call, isCancelled: false };
        timers.push(timer);
        return () => {
          timer.isCancelled = true;
        };
      },
      attemptFinished(_: LocalAttempt, outcome) {
        log.push("finished");
        outcomes.push(outcome);
      },
      handlerReturned() {
        log.push("settled");
        signalSettled();
      },
      sendFeedback: (_, input) => feedback.push(input),
      callNext: (_, { argumentsJson }) => {
        nextCalls.push(argumentsJson);
        return () => {};
      },
      reportProblem: ({ message }) => log.push(message),
    },
    { tenant: "acme", handlers, ext: hub.handlerApi, resources, workRoot },
  );
  const pass = (ms: number) => {
    now += ms;
  };
  return {
    executor,
    attempt,
    log,
    outcomes,
    feedback,
    nextCalls,
    vendorFrames,
    timers,
    settled,
    workRoot,
    pass,
    resources,
    uploads,
  };
}
