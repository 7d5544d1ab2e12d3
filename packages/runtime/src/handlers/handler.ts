// What a node's handler is and what it is given. This is the face that package authors see; who calls it is handler-executor.ts.

import type { ChildProcess, SpawnOptions } from "node:child_process";
import type { JsonObject } from "@astraflow/protocol";
import type { FeedbackChunk, FeedbackInput } from "../attempts/feedback.ts";
import type { KeptResource } from "../resources/resource.ts";
import type { ResourceRegistry } from "../resources/resource-registry.ts";
import type { HandlerVendorFrames } from "./vendor-frames.ts";

export interface FeedbackSender {
  /** Reports progress, messages, chunks of output, or results so far (`metadata.results`). Never waits. */
  send(input: FeedbackInput): void;
  /** One piece of text on a channel; `log` by default. */
  emitText(text: string, options?: Pick<FeedbackInput, "stage" | "progress" | "metadata"> & Pick<FeedbackChunk, "channel">): void;
}

export interface DispatchedResourceRef {
  readonly resource_id: string;
  readonly worker_name: string;
  readonly type: string;
  readonly scope?: string;
  readonly expires_at?: string;
  readonly metadata?: JsonObject;
}

/** What this worker keeps under a name, for this task and for others to come. */
export type HandlerResources = Pick<
  ResourceRegistry,
  | "register"
  | "registerFile"
  | "registerJson"
  | "get"
  | "readJson"
  | "upload"
  | "download"
  | "lease"
  | "release"
  | "touch"
  | "drop"
  | "releaseScope"
  | "list"
  | "artifact"
>;

/** A granted resource; `value` is its text, where the package asked for the text itself. */
export interface ResourceBinding {
  readonly resourceId: string;
  readonly type: string;
  readonly filename: string;
  readonly mimeType: string | null;
  readonly sizeBytes: number;
  readonly metadata: JsonObject | null;
  readonly value?: string;
}

export interface ResourceBindingError {
  readonly key: string;
  /** `missing_grant`, `resource_not_found`, `resource_value_unavailable`, or a code of a newer scheduler. */
  readonly error: string;
  readonly resourceId?: string;
}

export interface HandlerContext {
  readonly runId: string;
  readonly taskId: string;
  readonly nodeId: string;
  readonly nodeType: string;
  readonly packageName: string;
  readonly packageVersion: string;
  readonly tenant: string;
  /** 1 for the first grant of the task. */
  readonly attempt: number;
  /** The node's parameters, with the values its edges carried. */
  readonly params: JsonObject;
  readonly config: JsonObject;
  /** What the dispatch says beside the parameters: `constraints`, `concurrency_key`, `affinity`, `priority`. */
  readonly metadata: JsonObject;
  /** The same for every attempt of this task: for services that must not do a thing twice. */
  readonly idempotencyKey: string;
  /** When the task runs out of time, in milliseconds since 1970; undefined where it has no limit. */
  readonly deadline: number | undefined;
  /** Aborted when the task is cancelled, out of time, or no longer this worker's. What is returned after that is dropped. */
  readonly signal: AbortSignal;
  /** A directory of this attempt alone. Made when first asked for, removed once the handler has come back. */
  readonly workDir: string;
  readonly feedback: FeedbackSender;
  /** Of a middleware, and of a host that is run through a chain. */
  readonly hostNodeId: string | undefined;
  /** Ids of the middlewares, outermost first. */
  readonly middlewareChain: readonly string[];
  /** Place in the chain; undefined for whoever is no middleware. */
  readonly chainIndex: number | undefined;
  /**
   * Runs the next of the chain, the host at last, and gives its result; throws a NextError where that does not succeed. `payload` is merged
   * over the parameters of what is called. May be called again, or not at all. While it waits, the attempt takes no slot.
   */
  readonly next: (
    payload?: JsonObject,
    hostCtx?: JsonObject,
    middlewareCtx?: JsonObject,
    timeoutMs?: number,
  ) => Promise<JsonObject>;
  /** What the task refers to, as it was asked; `leased` is the same as it lies here, held until the handler has come back. */
  readonly resourceRefs: readonly DispatchedResourceRef[];
  readonly leased: readonly KeptResource[];
  readonly resources: HandlerResources;
  /** What the scheduler's operators granted of the resources that the package asks for, by its key. Never returned or printed: may be secret. */
  readonly resourceBindings: Readonly<Record<string, ResourceBinding>>;
  /** The texts among them alone, by the same keys. Never return or print them. */
  readonly secrets: Readonly<Record<string, string>>;
  /** Which of them are not there, and why; a handler that cannot do without fails with that. */
  readonly resourceBindingErrors: readonly ResourceBindingError[];
  /** Starts a process in a group of its own. The group ends when the task is stopped, and at the latest when the handler comes back. */
  readonly spawn: (command: string, args?: readonly string[], options?: SpawnOptions) => ChildProcess;
  /** Frames of one's own (`ext.vendor.*`), to and from whoever subscribed to them at the scheduler. */
  readonly ext: HandlerVendorFrames;
}

/** What a package's `setup` is given, once, when its module was loaded: no task need be running to listen. */
export interface SetupContext {
  readonly packageName: string;
  readonly packageVersion: string;
  readonly ext: HandlerVendorFrames;
}

/** A module may export this beside its handlers. It may be asynchronous; throwing makes its handlers unavailable. */
export type PackageSetup = (context: SetupContext) => unknown;

/** Returns the outputs, or `{status, outputs, metadata, artifacts}`; throwing fails the attempt. */
export type NodeHandler = (context: HandlerContext) => unknown;

export interface RegisteredHandler {
  readonly handler: NodeHandler;
  readonly config: JsonObject;
  /** What its node calls it: a task may name that instead of the type. */
  readonly handlerKey?: string;
  /** Where the package really lies; absent: it is not on disk. */
  readonly packageDir?: string;
  /** Keys of what its package asks for that is no secret; absent: all may be. */
  readonly nonSecretKeys?: ReadonlySet<string>;
}

/** Handlers by package, version and type of node, or the key of the handler: versions live side by side. */
export class HandlerRegistry {
  readonly #handlers = new Map<string, RegisteredHandler>();
  /** Null: several nodes name it, so that it is not known whose settings are meant. */
  readonly #byKey = new Map<string, RegisteredHandler | null>();

  add(of: { packageName: string; packageVersion: string; nodeType: string }, found: RegisteredHandler): void {
    this.#handlers.set(handlerName(of.packageName, of.packageVersion, of.nodeType), found);
    if (found.handlerKey === undefined) return;
    const name = handlerName(of.packageName, of.packageVersion, found.handlerKey);
    this.#byKey.set(name, this.#byKey.has(name) ? null : found);
  }

  /** `called`: a node type, or the key of a handler. */
  findHandler(packageName: string, packageVersion: string, called: string): RegisteredHandler | undefined {
    const name = handlerName(packageName, packageVersion, called);
    return this.#handlers.get(name) ?? this.#byKey.get(name) ?? undefined;
  }

  /** Other versions stay. */
  removeVersion(packageName: string, packageVersion: string): void {
    const prefix = handlerName(packageName, packageVersion, "");
    for (const names of [this.#handlers, this.#byKey])
      for (const name of names.keys()) if (name.startsWith(prefix)) names.delete(name);
  }

  get size(): number {
    return this.#handlers.size;
  }
}

function handlerName(packageName: string, packageVersion: string, called: string): string {
  return `${packageName}\n${packageVersion}\n${called}`;
}
