// All fixed limits of inputs; exceeding one is a fault. Limits per tenant or worker are settings and are not here.

import type { FaultCode } from "../faults/fault-codes.ts";

const KiB = 1024;
const MiB = 1024 * KiB;

export interface JsonLimits {
  readonly bytesMax: number;
  readonly depthMax: number;
  /** Members of objects and arrays together: each costs memory far beyond its bytes. */
  readonly itemsMax: number;
  /** Keys in all objects: objects with many different keys are the slowest to parse. */
  readonly keysMax: number;
  /** Keys of all kinds of objects, each kind counted once; absent: all keys may be different. */
  readonly shapeKeysMax?: number;
  readonly stringCharsMax: number;
  readonly numberCharsMax: number;
  readonly tooLarge: FaultCode;
  readonly invalid: FaultCode;
  /** What messages call the text. */
  readonly subject: string;
}

/** Bytes that one frame or body may have, by who sends it. */
const byteLimits = {
  /** From a peer that has not authenticated yet. */
  unauthenticatedFrameBytesMax: 64 * KiB,
  /** From an authenticated worker; a register may contain whole manifests. Reading a larger one would hold the thread of all callers for long. */
  frameBytesMax: 8 * MiB,
  /** To a worker of ours. */
  frameToWorkerBytesMax: 16 * MiB,
  /** To a worker of the older dialects: its library closes the socket above this. */
  legacyFrameBytesMax: 1 * MiB,
  requestBytesMax: 8 * MiB,
  /** One feedback frame is cut at this size. */
  feedbackBytesMax: 64 * KiB,
  /** A larger result is sent as an artifact. */
  resultInlineBytesMax: 256 * KiB,
  manifestBytesMax: 1 * MiB,
} as const;

const frameCodes = { tooLarge: "E.FRAME.TOO_LARGE", invalid: "E.FRAME.INVALID", subject: "the message" } as const;
const requestCodes = { tooLarge: "E.REQUEST.TOO_LARGE", invalid: "E.REQUEST.INVALID", subject: "the body" } as const;

const jsonLimits = {
  unauthenticated: {
    bytesMax: byteLimits.unauthenticatedFrameBytesMax,
    depthMax: 16,
    itemsMax: 1_000,
    keysMax: 500,
    stringCharsMax: 16 * KiB,
    numberCharsMax: 128,
    ...frameCodes,
  },
  frame: {
    bytesMax: byteLimits.frameBytesMax,
    depthMax: 64,
    itemsMax: 200_000,
    keysMax: 100_000,
    shapeKeysMax: 50_000,
    stringCharsMax: byteLimits.frameBytesMax,
    numberCharsMax: 128,
    ...frameCodes,
  },
  frameToWorker: {
    bytesMax: byteLimits.frameToWorkerBytesMax,
    depthMax: 64,
    itemsMax: 200_000,
    keysMax: 100_000,
    shapeKeysMax: 50_000,
    stringCharsMax: byteLimits.frameToWorkerBytesMax,
    numberCharsMax: 128,
    ...frameCodes,
  },
  request: {
    bytesMax: byteLimits.requestBytesMax,
    depthMax: 64,
    // A workflow of 8 MiB, such as 10,000 nodes and 35,000 edges, has fewer. With more, reading the body would hold the loop for long.
    itemsMax: 1_000_000,
    keysMax: 400_000,
    shapeKeysMax: 50_000,
    stringCharsMax: byteLimits.requestBytesMax,
    numberCharsMax: 128,
    ...requestCodes,
  },
  manifest: {
    bytesMax: byteLimits.manifestBytesMax,
    depthMax: 32,
    itemsMax: 50_000,
    keysMax: 25_000,
    stringCharsMax: 64 * KiB,
    numberCharsMax: 128,
    tooLarge: "E.MANIFEST.INVALID",
    invalid: "E.MANIFEST.INVALID",
    subject: "the file",
  },
} as const satisfies Record<string, JsonLimits>;

export const limits = {
  ...byteLimits,
  json: jsonLimits,
  batchItemsMax: 64,
  /** Bits of `ack_bitmap` that a JSON number carries without rounding. */
  bitmapNumberBitsMax: 53,
  /** Window of a session: frames in flight towards our own worker. */
  windowMax: 1_024,
  /** Hex digits of `ack_bitmap` for the largest window. */
  bitmapHexCharsMax: 256,
  /** Attempts named in one heartbeat, register or inventory. */
  heldTasksMax: 4_096,
  /** Resources named in one register. */
  registeredResourcesMax: 4_096,
  /** Resources that a heartbeat lists; more are counted: the list is for people who look at a worker. */
  heartbeatResourcesMax: 64,
  /** Task ids of nested containers are chains of ids. */
  idCharsMax: 1_024,
  nameCharsMax: 256,
  textCharsMax: 64 * KiB,
  tokenCharsMax: 8 * KiB,
  packagesMax: 1_000,
  chunksMax: 1_000,
  pageItemsMax: 200,
  pageItemsDefault: 50,
  idempotencyKeyCharsMax: 64,
  workflowNodesMax: 10_000,
  workflowEdgesMax: 50_000,
  subgraphDepthMax: 8,
} as const;
