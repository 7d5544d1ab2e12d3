// The resources of the worker as handlers in a Node host see them: every call waits for the worker, values stay here.

import { readSync, writeSync } from "node:fs";
import { type FaultCode, fault, type ResultArtifact } from "@astraflow/protocol";
import type { HandlerResources, KeptResource, ResourceDraft, StoredFile } from "@astraflow/sdk";
import { encodeFrames, FrameDecoder } from "./frame-stream.ts";
import type { HostedResource, RequestError } from "./host-frames.ts";

const readBytes = 64 * 1024;

/** Sends a request and blocks until it is answered. */
export type BlockingRequest = (call: number, operation: string, args: object) => unknown;

/** Sends a request and waits for its answer while everything else goes on: for what takes long. */
export type LaterRequest = (call: number, operation: string, args: object) => Promise<unknown>;

/** Over a descriptor of its own, which nothing else reads: everything else in this process stands still meanwhile. */
export function createBlockingRequest(descriptor: number): BlockingRequest {
  const reader = new FrameDecoder();
  const buffer = Buffer.alloc(readBytes);
  let count = 0;
  return (call, operation, args) => {
    const bytes = encodeFrames([{ type: "request", request: count++, call, method: "resource", operation, arguments: args }]);
    for (let at = 0; at < bytes.length; ) at += writeSync(descriptor, bytes, at);
    for (;;) {
      const length = readSync(descriptor, buffer);
      if (length === 0) throw new Error("the worker is gone");
      for (const answer of reader.add(Buffer.from(buffer.subarray(0, length)))) return readAnswer(answer);
    }
  };
}

function readAnswer(answer: unknown): unknown {
  const { value, error } = answer as { readonly value?: unknown; readonly error?: RequestError };
  if (error !== undefined) throw fault(error.code as FaultCode, error.message);
  return value;
}

interface LiveValue {
  readonly number: number;
  readonly value: unknown;
  readonly onDrop: ResourceDraft["onDrop"];
}

/** The values of this process, and the face of the registry for each call. */
export class RemoteResources {
  readonly #request: BlockingRequest;
  readonly #requestLater: LaterRequest;
  readonly #values = new Map<string, LiveValue>();
  #valueCount = 0;

  constructor(request: BlockingRequest, requestLater: LaterRequest) {
    this.#request = request;
    this.#requestLater = requestLater;
  }

  /** As the worker says; its value where it is one of this process. */
  restore(resource: HostedResource): KeptResource {
    return { ...resource, value: this.#values.get(resource.id)?.value };
  }

  /** The worker has let a resource go. Throws what its `onDrop` throws. */
  handleDropped(number: number, reason: string): void {
    for (const [id, live] of this.#values) {
      if (live.number !== number) continue;
      this.#values.delete(id);
      live.onDrop?.(reason);
      return;
    }
    const replaced = this.#replaced.get(number);
    this.#replaced.delete(number);
    replaced?.onDrop?.(reason);
  }

  /** Another value has its name by now; that it is gone is still to be said. */
  readonly #replaced = new Map<number, LiveValue>();

  forCall(call: number): HandlerResources {
    const ask = (operation: string, args: object): unknown => this.#request(call, operation, args);
    const restore = (answer: unknown): KeptResource => this.restore(answer as HostedResource);
    return {
      register: ({ value, onDrop, ...draft }) => {
        const isLive = value !== undefined || onDrop !== undefined;
        if (!isLive) return restore(ask("register", draft));
        const live = { number: this.#valueCount++, value, onDrop };
        const kept = ask("register", { ...draft, value: live.number });
        const before = this.#values.get(draft.id);
        if (before !== undefined) this.#replaced.set(before.number, before);
        this.#values.set(draft.id, live);
        return restore(kept);
      },
      // A function in the details is left out of the JSON.
      registerFile: (id, path, ...[more]) => restore(ask("registerFile", { id, path, ...more })),
      registerJson: (id, text, ...[more]) => restore(ask("registerJson", { id, text, ...more })),
      get: (id) => {
        const found = ask("get", { id });
        return found === null ? undefined : restore(found);
      },
      upload: async (id, ...[options]) => (await this.#requestLater(call, "upload", { id, ...options })) as StoredFile,
      download: async (resourceId, ...[more]) => restore(await this.#requestLater(call, "download", { resourceId, ...more })),
      readJson: (id) => ask("readJson", { id }),
      lease: (id) => restore(ask("lease", { id })),
      release: (id) => void ask("release", { id }),
      touch: (id, expiresAt) => ask("touch", { id, expiresAt }) as boolean,
      drop: (id, reason) => ask("drop", { id, reason }) as boolean,
      releaseScope: (scope) => ask("releaseScope", { scope }) as number,
      list: (...[which]) => (ask("list", { ...which }) as HostedResource[]).map(restore),
      artifact: (id, ...[options]) => ask("artifact", { id, ...options }) as ResultArtifact,
    };
  }
}
