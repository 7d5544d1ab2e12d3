// When an unacknowledged frame is resent, and how often on one socket.

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

/** How long to wait after this many sends on one socket. `random`: 0 <= n < 1; a half is the middle. */
export function resendDelayMs(policy: ResendPolicy, sends: number, random: number): number {
  const plain = Math.min(policy.capMs, policy.firstMs * policy.factor ** (sends - 1));
  return Math.round(plain * (1 + policy.jitter * (2 * random - 1)));
}

const goldenRatio = 0.6180339887498949;

/**
 * Jitter without randomness: multiples of the golden ratio fill the interval from 0 to 1 evenly, over the numbers of one end and over the
 * microseconds at which different ends send.
 */
export const spreadJitter = (number: number, now: number): number => ((number + now * 1_000) * goldenRatio) % 1;
