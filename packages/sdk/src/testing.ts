// Runs a handler once, without a worker and a scheduler, and tells what it returned and reported.

import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { NextError } from "./errors.ts";
import type { FeedbackInput } from "./feedback.ts";
import type { HandlerContext, HandlerVendorFrames, NodeHandler, ResourceBinding } from "./handler.ts";
import type { JsonObject } from "./json.ts";
import { MemoryResources } from "./memory-resources.ts";
import type { HandlerArtifact } from "./resources.ts";
import { type ResultStatus, readResultStatus } from "./result-status.ts";

export { MemoryResources } from "./memory-resources.ts";

export interface AdapterRunOptions {
  readonly params?: JsonObject;
  readonly config?: JsonObject;
  /** What operators granted, by the key that the package asks for. */
  readonly secrets?: Readonly<Record<string, string>>;
  /** Shared between runs, it shows what a later task finds. */
  readonly resources?: MemoryResources;
  /** Ids of resources that the task refers to; they are leased for it. */
  readonly resourceRefs?: readonly string[];
  /** Answers what a middleware calls; throw a NextError to let the inner call fail. */
  readonly next?: (payload: JsonObject) => JsonObject | Promise<JsonObject>;
  /** Aborted, it cancels the task. */
  readonly signal?: AbortSignal;
  /** Other fields of the context, such as `attempt` or `idempotencyKey`. */
  readonly context?: Partial<HandlerContext>;
}

export interface AdapterRun {
  readonly status: ResultStatus;
  readonly outputs: JsonObject;
  readonly metadata: JsonObject;
  readonly artifacts: readonly HandlerArtifact[];
  /** What it returned, as it was. */
  readonly returned: unknown;
  /** What it threw, or why what it returned is no result. */
  readonly error: unknown;
  readonly reports: readonly FeedbackInput[];
  /** All text on a channel; `log` unless another is named. */
  text(channel?: string): string;
  readonly resources: MemoryResources;
}

/** The directory and the processes of the handler are gone when it resolves. It never rejects because of the handler. */
export async function runAdapter(handler: NodeHandler, options: AdapterRunOptions = {}): Promise<AdapterRun> {
  const workDir = mkdtempSync(join(tmpdir(), "adapter-"));
  const children: ChildProcess[] = [];
  const reports: FeedbackInput[] = [];
  const resources = options.resources ?? new MemoryResources();
  const signal = options.signal ?? new AbortController().signal;
  const context = createContext(options, { workDir, children, reports, resources, signal });
  let returned: unknown;
  let error: unknown;
  try {
    returned = await handler(context);
  } catch (thrown) {
    error = thrown;
  } finally {
    for (const child of children) if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
    for (const id of options.resourceRefs ?? []) resources.release(id);
    rmSync(workDir, { recursive: true, force: true });
  }
  return {
    ...readReturned(returned, error, signal.aborted),
    returned,
    reports,
    resources,
    text: (channel) => textOf(reports, channel),
  };
}

interface RunParts {
  readonly workDir: string;
  readonly children: ChildProcess[];
  readonly reports: FeedbackInput[];
  readonly resources: MemoryResources;
  readonly signal: AbortSignal;
}

function createContext(options: AdapterRunOptions, { workDir, children, reports, resources, signal }: RunParts): HandlerContext {
  const { params = {}, config = {}, secrets = {}, resourceRefs = [], next } = options;
  return {
    runId: "test-run",
    taskId: "test-task",
    nodeId: "test-node",
    nodeType: "test.node",
    packageName: "test",
    packageVersion: "0.0.0",
    tenant: "test",
    attempt: 1,
    params,
    config,
    metadata: {},
    idempotencyKey: "test-task",
    deadline: undefined,
    signal,
    workDir,
    feedback: {
      send: (input) => void reports.push(input),
      emitText: (text, { channel = "log", ...more } = {}) => void reports.push({ ...more, chunks: [{ channel, text }] }),
    },
    hostNodeId: next === undefined ? undefined : "test-host",
    middlewareChain: next === undefined ? [] : ["test-node"],
    chainIndex: next === undefined ? undefined : 0,
    next: async (payload = {}) => {
      if (next === undefined) throw new NextError("next_no_chain", "the test gave no next, so there is nothing to call");
      return next(payload);
    },
    resourceRefs: resourceRefs.map((id) => ({
      resource_id: id,
      worker_name: resources.workerName,
      type: resources.get(id)?.type ?? "",
    })),
    leased: resourceRefs.map((id) => resources.lease(id)),
    resources,
    resourceBindings: Object.fromEntries(Object.entries(secrets).map(([key, value]) => [key, secretBinding(key, value)])),
    secrets,
    resourceBindingErrors: [],
    spawn: (command, args = [], spawnOptions = {}) => {
      const child = spawn(command, args, { cwd: workDir, ...spawnOptions });
      children.push(child);
      return child;
    },
    ext: noVendorFrames,
    ...options.context,
  };
}

const noVendorFrames: HandlerVendorFrames = { send: async () => true, on: () => () => {} };

const secretBinding = (key: string, value: string): ResourceBinding => ({
  resourceId: `test-${key}`,
  type: "secret",
  filename: key,
  mimeType: null,
  sizeBytes: Buffer.byteLength(value),
  metadata: null,
  value,
});

/** As the worker reads it. */
function readReturned(
  returned: unknown,
  thrown: unknown,
  isAborted: boolean,
): Pick<AdapterRun, "status" | "outputs" | "metadata" | "artifacts" | "error"> {
  const nothing = { outputs: {}, metadata: {}, artifacts: [] };
  if (isAborted) return { ...nothing, status: "CANCELLED", error: thrown };
  if (thrown !== undefined) return { ...nothing, status: "FAILED", error: thrown };
  if (!isObject(returned))
    return {
      ...nothing,
      status: "FAILED",
      error: new TypeError(`the handler returned ${typeof returned}; it must return an object`),
    };
  const { status, outputs, metadata, artifacts, ...others } = returned;
  return {
    status: readResultStatus(status),
    // As it arrives: what JSON cannot hold is missing.
    outputs: JSON.parse(JSON.stringify(isObject(outputs) ? outputs : others)) as JsonObject,
    metadata: isObject(metadata) ? (metadata as JsonObject) : {},
    artifacts: Array.isArray(artifacts) ? (artifacts as HandlerArtifact[]) : [],
    error: undefined,
  };
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const textOf = (reports: readonly FeedbackInput[], channel = "log"): string =>
  reports
    .flatMap(({ chunks = [] }) => chunks)
    .flatMap((chunk) => ((chunk.channel ?? "log") === channel && chunk.text !== undefined ? [chunk.text] : []))
    .join("");
