// The context of a handler for one attempt. Directories, signals and process groups are costly, so each is created on first use.

import { createHash } from "node:crypto";
import path from "node:path";
import { type DispatchPayload, isRecord, type JsonObject } from "@astraflow/protocol";
import type {
  DispatchedResourceRef,
  FeedbackInput,
  FeedbackSender,
  HandlerContext,
  HandlerResources,
  HandlerVendorFrames,
  KeptResource,
} from "@astraflow/sdk";
import type { LocalAttempt } from "../attempts/attempt.ts";
import { ChildProcesses, type ChildProcessPorts } from "../system/child-processes.ts";
import { createDirectory } from "../system/create-directory.ts";
import { callNext, type MiddlewareCallPorts } from "./middleware-call.ts";

export interface AttemptContextPorts extends MiddlewareCallPorts, ChildProcessPorts {
  /** Milliseconds since 1970. */
  wallClock(): number;
  sendFeedback(attempt: LocalAttempt, input: FeedbackInput): void;
}

export interface AttemptContextSettings {
  readonly tenant: string;
  readonly ext: HandlerVendorFrames;
  readonly resources: HandlerResources;
  /** Parent of the attempts' own directories. */
  readonly workRoot: string;
}

const workDirNameCharsMax = 120;

export class AttemptContext implements HandlerContext {
  readonly runId: string;
  readonly taskId: string;
  readonly nodeId: string;
  readonly nodeType: string;
  readonly packageName: string;
  readonly packageVersion: string;
  readonly tenant: string;
  readonly attempt: number;
  readonly params: HandlerContext["params"];
  readonly config: HandlerContext["config"];
  readonly idempotencyKey: string;
  readonly deadline: number | undefined;
  readonly hostNodeId: string | undefined;
  readonly middlewareChain: readonly string[];
  readonly chainIndex: number | undefined;
  readonly resourceRefs: HandlerContext["resourceRefs"];
  readonly leased: readonly KeptResource[];
  readonly resources: HandlerResources;
  readonly feedback: FeedbackSender;
  readonly ext: HandlerVendorFrames;
  readonly #attempt: LocalAttempt;
  readonly #ports: AttemptContextPorts;
  readonly #workRoot: string;
  #createdWorkDir: string | undefined;
  #childProcesses: ChildProcesses | undefined;

  constructor(
    attempt: LocalAttempt,
    { config, leased }: Pick<HandlerContext, "config" | "leased">,
    settings: AttemptContextSettings,
    ports: AttemptContextPorts,
  ) {
    const { dispatch } = attempt;
    this.runId = dispatch.run_id;
    this.taskId = dispatch.task_id;
    this.nodeId = dispatch.node_id;
    this.nodeType = dispatch.node_type;
    this.packageName = dispatch.package_name;
    this.packageVersion = dispatch.package_version;
    this.tenant = settings.tenant;
    this.attempt = dispatch.attempt ?? 1;
    this.params = dispatch.parameters;
    this.config = config;
    // The same for every attempt of the task, and of no other task.
    this.idempotencyKey = dispatch.task_id;
    const timeoutMs = dispatch.constraints.timeout_ms;
    this.deadline = timeoutMs === undefined ? undefined : ports.wallClock() + timeoutMs;
    this.hostNodeId = dispatch.host_node_id;
    this.middlewareChain = dispatch.middleware_chain ?? emptyList;
    this.chainIndex = dispatch.chain_index;
    this.resourceRefs = (dispatch.resource_refs as readonly DispatchedResourceRef[] | undefined) ?? emptyList;
    this.leased = leased;
    this.resources = settings.resources;
    this.ext = settings.ext;
    this.#attempt = attempt;
    this.#ports = ports;
    this.#workRoot = settings.workRoot;
    this.feedback = {
      send: (input) => ports.sendFeedback(attempt, input),
      emitText: (text, { channel = "log", ...rest } = {}) =>
        ports.sendFeedback(attempt, { ...rest, chunks: [{ channel, text }] }),
    };
  }

  get metadata(): HandlerContext["metadata"] {
    return describeDispatch(this.#attempt.dispatch);
  }

  get resourceBindings(): HandlerContext["resourceBindings"] {
    const bound = this.params["__resourceBindings"];
    return isRecord(bound) ? (bound as unknown as HandlerContext["resourceBindings"]) : emptyRecord;
  }

  get secrets(): HandlerContext["secrets"] {
    return Object.fromEntries(
      Object.entries(this.resourceBindings).flatMap(([key, bound]) =>
        typeof bound?.value === "string" ? [[key, bound.value]] : [],
      ),
    );
  }

  get resourceBindingErrors(): HandlerContext["resourceBindingErrors"] {
    const errors = this.params["__resourceBindingErrors"];
    return Array.isArray(errors) ? (errors as unknown as HandlerContext["resourceBindingErrors"]) : emptyList;
  }

  get signal(): AbortSignal {
    return this.#attempt.stopSignal.signal;
  }

  // Functions that need no `this`: handlers take the context apart in their parameter list.
  get next(): HandlerContext["next"] {
    return (payload, hostCtx, middlewareCtx, timeoutMs) =>
      callNext(this.#attempt, this.#ports, { payload, hostCtx, middlewareCtx, timeoutMs });
  }

  get spawn(): HandlerContext["spawn"] {
    return (command, args = [], options = {}) => {
      this.#childProcesses ??= new ChildProcesses(this.signal, this.#ports);
      return this.#childProcesses.spawn(command, args, options);
    };
  }

  get workDir(): string {
    if (this.#createdWorkDir === undefined) {
      const dir = this.workDirPath;
      createDirectory(dir);
      this.#createdWorkDir = dir;
    }
    return this.#createdWorkDir;
  }

  /** Where the attempt's directory is, or would be. */
  get workDirPath(): string {
    return path.join(this.#workRoot, workDirName(this.#attempt));
  }

  /** Another process may have created the directory: it is removed with the attempt. */
  adoptWorkDir(): void {
    this.#createdWorkDir = this.workDirPath;
  }

  get createdWorkDir(): string | undefined {
    return this.#createdWorkDir;
  }

  /** The handler has come back: what it started and did not wait for ends now. */
  killChildProcesses(): void {
    this.#childProcesses?.killAll();
  }
}

function describeDispatch({ constraints, concurrency_key, affinity, priority }: DispatchPayload): JsonObject {
  return {
    constraints,
    ...(concurrency_key !== undefined && { concurrency_key }),
    ...(affinity !== undefined && { affinity }),
    ...(priority !== undefined && { priority }),
  } as JsonObject;
}

const emptyList: readonly never[] = [];
const emptyRecord: Readonly<Record<string, never>> = Object.freeze({});

/** One plain name inside the work root, whatever a scheduler put into the ids; long ones differ by a digest. */
function workDirName(attempt: LocalAttempt): string {
  const exact = `${attempt.run}/${attempt.task}/${attempt.fence}`;
  const digest = createHash("sha256").update(exact).digest("hex").slice(0, 16);
  return `${attempt.task.replace(/[^A-Za-z0-9-]/g, "_").slice(0, workDirNameCharsMax)}_${digest}`;
}
