// How each dialect numbers, acknowledges and resends frames.

import { type Dialect, limits } from "@astraflow/protocol";

export interface ResendPolicy {
  /** From the first send to the first resend. */
  readonly firstMs: number;
  readonly factor: number;
  readonly capMs: number;
  /** Share by which a delay is made shorter or longer, so that peers that failed together do not resend together. */
  readonly jitter: number;
  /** Sends in all on one socket, the first included. */
  readonly sendsMax: number;
}

export interface DialectRules {
  readonly dialect: Dialect;
  /** Whether frames carry a transport number. Where they do not, numbers are internal and acks name ids. */
  readonly isNumbered: boolean;
  /** Whether acks carry the window. Otherwise they name ids, and an ack that names one is judged by it alone. */
  readonly isWindowAcked: boolean;
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

/** Their bitmap is always a number, so their window must fit a double; they use up numbers while offline, so they cannot resume. */
const olderRules = { framesMax: limits.bitmapNumberBitsMax, gapTimeoutMs, canResume: false };

const v2Rules: DialectRules = {
  dialect: "v2",
  isNumbered: true,
  isWindowAcked: true,
  firstNumber: 0,
  framesMax: limits.windowMax,
  resend: slowResend,
  gapTimeoutMs,
  canResume: true,
};

export const dialectRules: Readonly<Record<Dialect, DialectRules>> = {
  v2: v2Rules,
  // It has not announced that it reads a bitmap of more bits than a double holds.
  basic: { ...v2Rules, dialect: "basic", framesMax: limits.bitmapNumberBitsMax },
  // One frame at a time, numbered as in v2, which the first generation ignores. Both kinds ack it by its id.
  undecided: { ...v2Rules, dialect: "undecided", isWindowAcked: false, framesMax: 1, canResume: false },
  first: { ...olderRules, dialect: "first", isNumbered: true, isWindowAcked: true, firstNumber: 1, resend: slowResend },
  v1: { ...olderRules, dialect: "v1", isNumbered: false, isWindowAcked: false, firstNumber: 0, resend: fastResend },
};

/** Sent, with an empty payload, under the number of a frame that was withdrawn: a missing number would stop the stream. */
export const fillerFrameType = "ext.vendor.astraflow.void";

/** How long to wait after this many sends on one socket. `random`: 0 <= n < 1; a half is the middle. */
export function resendDelayMs(policy: ResendPolicy, sends: number, random: number): number {
  const plain = Math.min(policy.capMs, policy.firstMs * policy.factor ** (sends - 1));
  return Math.round(plain * (1 + policy.jitter * (2 * random - 1)));
}

const goldenRatio = 0.6180339887498949;

/** Jitter without randomness: multiples of the golden ratio fill the interval from 0 to 1 evenly, over numbers and send times. */
export const spreadJitter = (number: number, now: number): number => ((number + now * 1_000) * goldenRatio) % 1;
