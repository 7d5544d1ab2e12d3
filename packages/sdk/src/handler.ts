// What a handler is and what it is given. A package's module exports its handlers, and perhaps a `setup`.

import type { ChildProcess, SpawnOptions } from "node:child_process";
import type { FeedbackSender } from "./feedback.ts";
import type { JsonObject } from "./json.ts";
import type { HandlerArtifact, HandlerResources, KeptResource } from "./resources.ts";

export interface DispatchedResourceRef {
  readonly resource_id: string;
  readonly worker_name: string;
  readonly type: string;
  readonly scope?: string;
  readonly expires_at?: string;
  readonly metadata?: JsonObject;
}

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

/** The long form of what a handler returns. */
export interface HandlerOutputs {
  /** `succeeded` unless it says otherwise: `failed`, `skipped`, `cancelled`. */
  readonly status?: string;
  readonly outputs?: JsonObject;
  readonly metadata?: JsonObject;
  readonly artifacts?: readonly HandlerArtifact[];
}

/** Returns the outputs as an object, or them with a status and more (HandlerOutputs), or a promise of either; throwing fails the attempt. */
export type NodeHandler = (context: HandlerContext) => unknown;

export interface IncomingVendorFrame {
  readonly type: string;
  readonly id: string;
  readonly corr: string | undefined;
  readonly payload: JsonObject;
}

export interface HandlerVendorFrames {
  /**
   * Hands a frame to the session; it is delivered at least once, over new connections if it must. False: too much waits already, or
   * the worker is not connected to anything yet; try again later. Rejects where the type or the payload can never be sent.
   */
  send(type: string, payload: JsonObject, options?: { readonly corr?: string }): Promise<boolean>;
  /**
   * Calls the listener with frames of exactly this type until the returned function is called. A type without listeners is refused to
   * its sender. A frame may come twice across a new session; its id is the same.
   */
  on(type: string, listener: (frame: IncomingVendorFrame) => void): () => void;
}
