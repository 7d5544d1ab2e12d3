// The frames between a worker and a child host, which runs the adapters of one package version. docs/host-protocol.md describes them.

import type { JsonObject } from "@astraflow/protocol";
import { isRecord } from "@astraflow/protocol";
import type { DispatchedResourceRef, FeedbackInput, IncomingVendorFrame, KeptResource } from "@astraflow/sdk";
import type { AdapterNode } from "../handlers/node-handlers.ts";
import type { OutgoingVendorFrame } from "../handlers/vendor-frames.ts";

/** Raised when a frame changes in a way that an older host does not understand. */
export const hostProtocolVersion = 1;

export const hostLimits = {
  /** One frame, in both directions. A larger result cannot leave its host. */
  frameBytesMax: 64 * 1024 * 1024,
  /** Bytes that wait for a host that does not read; beyond that it is ended. */
  pendingBytesMax: 64 * 1024 * 1024,
  /** Feedback frames that wait in the host; beyond that `send` waits and `send_nowait` drops. */
  pendingFeedbackMax: 1_000,
  /** Time from the start of the process to `ready`. */
  startMsMax: 60_000,
  /** Between SIGTERM and SIGKILL. */
  terminationGraceMs: 2_000,
  /** How long attempts may take to end once the version was removed or its host is replaced. */
  drainMsMax: 600_000,
  /** Characters of the last output of a host that a crash is explained with. */
  crashOutputCharsMax: 4_096,
  /** Reports of output outside any task, for the life of one process. */
  strayOutputReportsMax: 100,
} as const;

/** What a resource is for a host: all of it but the value, which stays in the process that registered it. */
export type HostedResource = Omit<KeptResource, "value">;

/** What `start` says about its attempt. */
export interface HostedAttempt {
  readonly runId: string;
  readonly taskId: string;
  readonly nodeId: string;
  /** As the host lists it, also where the task names a handler. */
  readonly nodeType: string;
  readonly tenant: string;
  readonly attempt: number;
  readonly params: JsonObject;
  readonly config: JsonObject;
  readonly metadata: JsonObject;
  /** Created by the host when the adapter first asks for it. */
  readonly dataDir: string;
  readonly idempotencyKey: string;
  /** Milliseconds since 1970. */
  readonly deadline?: number;
  readonly hostNodeId?: string;
  readonly middlewareChain: readonly string[];
  readonly chainIndex?: number;
  readonly resourceRefs: readonly DispatchedResourceRef[];
  readonly leased: readonly HostedResource[];
}

export interface HostSettings {
  /** Which mode an adapter gets that names none. */
  readonly execMode: "auto" | "inline" | "thread";
  /** Attempts that may run at once: threads of sync adapters. */
  readonly parallelMax: number;
  readonly memoryMbMax?: number;
  readonly cpuSecondsMax?: number;
}

export interface HostedPackage {
  readonly name: string;
  readonly version: string;
  readonly dir: string;
  readonly adapters: readonly { readonly name: string; readonly entrypoint: string; readonly metadata: JsonObject }[];
  readonly nodes: readonly AdapterNode[];
}

export type ToHost =
  | {
      readonly type: "hello";
      readonly protocol: number;
      readonly package: HostedPackage;
      readonly settings: HostSettings;
      readonly limits: { readonly frameBytesMax: number; readonly pendingFeedbackMax: number };
    }
  | { readonly type: "start"; readonly call: number; readonly attempt: HostedAttempt }
  | { readonly type: "cancel"; readonly call: number; readonly reason: string }
  | { readonly type: "answer"; readonly request: number; readonly value: unknown }
  | { readonly type: "answer"; readonly request: number; readonly error: RequestError }
  /** The resource with a value of this process is gone: by the number that the process gave the value. */
  | { readonly type: "dropped"; readonly value: number; readonly reason: string }
  | { readonly type: "ext"; readonly frame: IncomingVendorFrame }
  | { readonly type: "ping"; readonly ping: number }
  /** No more calls follow: the host ends once those that run have ended. */
  | { readonly type: "end" };

export interface RequestError {
  readonly code: string;
  readonly message: string;
  readonly trace?: JsonObject;
}

export interface HostProblem {
  readonly code: string;
  readonly message: string;
}

/** What an adapter asks its worker for. */
export type HostRequest =
  | {
      readonly method: "next";
      readonly payload?: JsonObject;
      readonly hostCtx?: JsonObject;
      readonly middlewareCtx?: JsonObject;
      readonly timeoutMs?: number;
    }
  | { readonly method: "resource"; readonly operation: string; readonly arguments: JsonObject }
  | { readonly method: "ext"; readonly draft: OutgoingVendorFrame };

export type FromHost =
  | {
      readonly type: "ready";
      readonly runtime: string;
      readonly handlers: readonly string[];
      readonly problems: readonly HostProblem[];
    }
  | { readonly type: "feedback"; readonly call: number; readonly input: FeedbackInput }
  | { readonly type: "result"; readonly call: number; readonly value?: unknown; readonly usedDataDir?: boolean }
  | {
      readonly type: "error";
      readonly call: number;
      readonly code?: string;
      readonly message: string;
      readonly stack?: string;
      readonly usedDataDir?: boolean;
    }
  /** `call`: whose request it is; a vendor frame may belong to none. */
  | ({ readonly type: "request"; readonly request: number; readonly call?: number } & HostRequest)
  /** A group of processes of its adapters that is no part of its own. */
  | { readonly type: "group"; readonly pid: number; readonly isAlive: boolean }
  | { readonly type: "listening"; readonly types: readonly string[] }
  /** Printed outside any call. */
  | { readonly type: "output"; readonly channel: "stdout" | "stderr"; readonly text: string }
  | { readonly type: "report"; readonly message: string; readonly cause: string }
  | { readonly type: "pong"; readonly ping: number };

const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0;
const isText = (value: unknown): boolean => typeof value === "string";
const isTextList = (value: unknown): boolean => Array.isArray(value) && value.every(isText);
const isOptional =
  (check: (value: unknown) => boolean) =>
  (value: unknown): boolean =>
    value === undefined || check(value);
const isProblem = (value: unknown): boolean => isRecord(value) && isText(value["code"]) && isText(value["message"]);
const isFlag = (value: unknown): boolean => value === undefined || typeof value === "boolean";

/** The fields that each frame must have; what is inside of them is checked by whoever uses it. */
const frameFields: { readonly [T in FromHost["type"]]: Readonly<Record<string, (value: unknown) => boolean>> } = {
  ready: {
    runtime: isText,
    handlers: isTextList,
    problems: (value) => Array.isArray(value) && value.every(isProblem),
  },
  feedback: { call: isCount },
  result: { call: isCount, usedDataDir: isFlag },
  error: { call: isCount, message: isText, code: isOptional(isText), stack: isOptional(isText), usedDataDir: isFlag },
  request: {
    request: isCount,
    call: isOptional(isCount),
    method: (value) => value === "next" || value === "resource" || value === "ext",
    operation: isOptional(isText),
    arguments: isOptional(isRecord),
    draft: isOptional(isRecord),
  },
  group: { pid: (value) => isCount(value) && (value as number) > 1, isAlive: (value) => typeof value === "boolean" },
  listening: { types: isTextList },
  output: { channel: (value) => value === "stdout" || value === "stderr", text: isText },
  report: { message: isText, cause: isText },
  pong: { ping: isCount },
};

/** A frame of a host, or what is wrong with it, in a sentence. */
export function readHostFrame(value: unknown): FromHost | string {
  if (!isRecord(value) || typeof value["type"] !== "string") return "a frame is not an object with a type";
  const type = value["type"];
  if (!Object.hasOwn(frameFields, type)) return `a frame has the unknown type ${JSON.stringify(type.slice(0, 64))}`;
  for (const [field, isValid] of Object.entries(frameFields[type as FromHost["type"]]))
    if (!isValid(value[field])) return `field ${field} of a ${type} frame is wrong or missing`;
  return value as unknown as FromHost;
}
