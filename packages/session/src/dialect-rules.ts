// How each dialect numbers, acknowledges and resends frames.

import { type Dialect, limits } from "@astraflow/protocol";
import type { ResendPolicy } from "./resend-policy.ts";

export interface DialectRules {
  readonly dialect: Dialect;
  /** Whether frames carry a transport number. Where they do not, numbers are internal and acks name ids. */
  readonly isNumbered: boolean;
  readonly firstNumber: number;
  readonly framesMax: number;
  readonly resend: ResendPolicy;
  /** A gap in the numbers of the peer that stays open this long ends the session. */
  readonly gapTimeoutMs: number;
  readonly canResume: boolean;
}

/** On a live socket TCP delivers; a quick resend would only cause a storm while a store stalls. */
const slowResend: ResendPolicy = { firstMs: 5_000, factor: 2, capMs: 30_000, jitter: 0.2, sendsMax: 6 };
const fastResend: ResendPolicy = { firstMs: 200, factor: 2, capMs: 5_000, jitter: 0.2, sendsMax: 6 };
/** The oldest workers give up a frame after this time, so an older gap is never filled. */
const gapTimeoutMs = 16_000;

export const dialectRules: Readonly<Record<Dialect, DialectRules>> = {
  v2: {
    dialect: "v2",
    isNumbered: true,
    firstNumber: 0,
    framesMax: limits.windowMax,
    resend: slowResend,
    gapTimeoutMs,
    canResume: true,
  },
  // Its bitmap is always a number, so its window must fit a double; its workers use up numbers while offline, so it cannot resume.
  first: {
    dialect: "first",
    isNumbered: true,
    firstNumber: 1,
    framesMax: limits.bitmapNumberBitsMax,
    resend: slowResend,
    gapTimeoutMs,
    canResume: false,
  },
  v1: {
    dialect: "v1",
    isNumbered: false,
    firstNumber: 0,
    framesMax: limits.bitmapNumberBitsMax,
    resend: fastResend,
    gapTimeoutMs,
    canResume: false,
  },
};

/**
 * Sent under the number of a frame whose content was withdrawn: a number that never comes would stop the stream. The payload is empty;
 * the receiver settles it and does nothing.
 */
export const fillerFrameType = "ext.vendor.astraflow.void";
