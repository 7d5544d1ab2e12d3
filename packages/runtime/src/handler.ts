// What a node's handler is and what it is given. This is the face that package authors see; who calls it is executor.ts.

import type { JsonObject } from "@astraflow/protocol";
import type { ExtFace } from "./ext.ts";
import type { FeedbackChunk, FeedbackInput } from "./feedback.ts";

export interface FeedbackSender {
  /** Reports progress, messages, chunks of output, or results so far (`metadata.results`). Never waits. */
  send(input: FeedbackInput): void;
  /** One piece of text on a channel; `log` unless said otherwise. */
  emitText(text: string, options?: Pick<FeedbackInput, "stage" | "progress" | "metadata"> & Pick<FeedbackChunk, "channel">): void;
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
  /** The node's `config` from the manifest. */
  readonly config: JsonObject;
  /** Aborted when the task is cancelled, out of time, or no longer this worker's. What is returned after that is dropped. */
  readonly signal: AbortSignal;
  /** A directory of this attempt alone. Made when first asked for, removed once the handler has come back. */
  readonly workDir: string;
  readonly feedback: FeedbackSender;
  /** Frames of one's own (`ext.vendor.*`), to and from whoever subscribed to them at the scheduler. */
  readonly ext: ExtFace;
}

/** What a package's `setup` is given, once, when its module was loaded: no task need be running to listen. */
export interface SetupContext {
  readonly packageName: string;
  readonly packageVersion: string;
  readonly ext: ExtFace;
}

/** A module may export this beside its handlers. It may be asynchronous; throwing makes its handlers unavailable. */
export type Setup = (context: SetupContext) => unknown;

/** Returns the outputs, or `{status, outputs, metadata, artifacts}`; throwing fails the attempt. */
export type Handler = (context: HandlerContext) => unknown;

export interface FoundHandler {
  readonly handler: Handler;
  readonly config: JsonObject;
}

/** Handlers by package, version and type of node: versions live side by side. */
export class HandlerRegistry {
  readonly #found = new Map<string, FoundHandler>();

  add(of: { packageName: string; packageVersion: string; nodeType: string }, found: FoundHandler): void {
    this.#found.set(keyOf(of.packageName, of.packageVersion, of.nodeType), found);
  }

  find(packageName: string, packageVersion: string, nodeType: string): FoundHandler | undefined {
    return this.#found.get(keyOf(packageName, packageVersion, nodeType));
  }

  get size(): number {
    return this.#found.size;
  }
}

function keyOf(packageName: string, packageVersion: string, nodeType: string): string {
  return `${packageName}\n${packageVersion}\n${nodeType}`;
}
