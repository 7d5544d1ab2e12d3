// What a handler is given for one attempt, made cheaply: directories, signals and process groups cost more than a light handler, so each
// is made when first asked for. Who calls the handler, and what becomes of what it returns, is executor.ts.

import type { ChildProcess, SpawnOptions } from "node:child_process";
import { createHash } from "node:crypto";
import path from "node:path";
import type { JsonObject } from "@astraflow/protocol";
import type { Attempt } from "./attempt.ts";
import { Children, type ChildrenPorts } from "./children.ts";
import type { ExtFace } from "./ext.ts";
import type { FeedbackInput } from "./feedback.ts";
import { makeFolder } from "./folder.ts";
import type { FeedbackSender, HandlerContext, RefWords, ResourceFace } from "./handler.ts";
import { callNext, type NextPorts } from "./next.ts";
import type { Resource } from "./resource.ts";

export interface ContextPorts extends NextPorts, ChildrenPorts {
  feedback(attempt: Attempt, input: FeedbackInput): void;
}

export interface ContextSettings {
  readonly tenant: string;
  readonly ext: ExtFace;
  readonly resources: ResourceFace;
  /** Parent of the attempts' own directories. */
  readonly workRoot: string;
}

export interface ContextGiven {
  readonly attempt: Attempt;
  readonly settings: ContextSettings;
  readonly config: JsonObject;
  readonly leased: readonly Resource[];
  readonly ports: ContextPorts;
}

const dirNameCharsMax = 120;

export class Context implements HandlerContext {
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
  readonly hostNodeId: string | undefined;
  readonly middlewareChain: readonly string[];
  readonly chainIndex: number | undefined;
  readonly resourceRefs: HandlerContext["resourceRefs"];
  readonly leased: readonly Resource[];
  readonly resources: ResourceFace;
  readonly feedback: FeedbackSender;
  readonly ext: ExtFace;
  readonly #attempt: Attempt;
  readonly #ports: ContextPorts;
  readonly #workRoot: string;
  #madeDir: string | undefined;
  #children: Children | undefined;

  constructor({ attempt, settings, config, leased, ports }: ContextGiven) {
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
    this.hostNodeId = dispatch.host_node_id;
    this.middlewareChain = dispatch.middleware_chain ?? none;
    this.chainIndex = dispatch.chain_index;
    this.resourceRefs = (dispatch.resource_refs as readonly RefWords[] | undefined) ?? none;
    this.leased = leased;
    this.resources = settings.resources;
    this.ext = settings.ext;
    this.#attempt = attempt;
    this.#ports = ports;
    this.#workRoot = settings.workRoot;
    this.feedback = {
      send: (input) => ports.feedback(attempt, input),
      emitText: (text, { channel = "log", ...rest } = {}) => ports.feedback(attempt, { ...rest, chunks: [{ channel, text }] }),
    };
  }

  get resourceBindings(): HandlerContext["resourceBindings"] {
    const bound = this.params["__resourceBindings"];
    return isObject(bound) ? (bound as unknown as HandlerContext["resourceBindings"]) : nothing;
  }

  get resourceBindingErrors(): HandlerContext["resourceBindingErrors"] {
    const errors = this.params["__resourceBindingErrors"];
    return Array.isArray(errors) ? (errors as unknown as HandlerContext["resourceBindingErrors"]) : none;
  }

  get signal(): AbortSignal {
    return this.#attempt.stop.signal;
  }

  next(payload?: JsonObject, hostCtx?: JsonObject, middlewareCtx?: JsonObject, timeoutMs?: number): Promise<JsonObject> {
    return callNext(this.#attempt, this.#ports, { payload, hostCtx, middlewareCtx, timeoutMs });
  }

  spawn(command: string, args: readonly string[] = [], options: SpawnOptions = {}): ChildProcess {
    this.#children ??= new Children(this.signal, this.#ports);
    return this.#children.spawn(command, args, options);
  }

  get workDir(): string {
    if (this.#madeDir === undefined) {
      const dir = path.join(this.#workRoot, dirNameOf(this.#attempt));
      makeFolder(dir);
      this.#madeDir = dir;
    }
    return this.#madeDir;
  }

  get madeDir(): string | undefined {
    return this.#madeDir;
  }

  /** The handler has come back: what it started and did not wait for ends now. */
  endChildren(): void {
    this.#children?.end();
  }
}

const none: readonly never[] = [];
const nothing: Readonly<Record<string, never>> = Object.freeze({});
const isObject = (value: unknown): boolean => typeof value === "object" && value !== null && !Array.isArray(value);

/** One plain name inside the work root, whatever a scheduler put into the ids; long ones are told apart by a digest. */
function dirNameOf(attempt: Attempt): string {
  const exact = `${attempt.run}/${attempt.task}/${attempt.fence}`;
  const digest = createHash("sha256").update(exact).digest("hex").slice(0, 16);
  return `${attempt.task.replace(/[^A-Za-z0-9-]/g, "_").slice(0, dirNameCharsMax)}_${digest}`;
}
