// When a frame that nobody acknowledged is sent again, and when to stop trying on this socket. Clock and dice belong to the caller.

export interface ResendPolicy {
  /** From the first send to the first repeat. */
  readonly firstMs: number;
  readonly factor: number;
  readonly capMs: number;
  /** Share by which a delay is drawn shorter or longer, so that ends that failed together do not repeat together. */
  readonly jitter: number;
  /** Sends in all on one socket, the first included. */
  readonly sendsMax: number;
}

/** How long to wait after the so-manieth send on this socket. `roll` is from 0 up to 1; a half is the middle. */
export function resendDelayMs(policy: ResendPolicy, sends: number, random: number): number {
  const plain = Math.min(policy.capMs, policy.firstMs * policy.factor ** (sends - 1));
  return Math.round(plain * (1 + policy.jitter * (2 * random - 1)));
}

const goldenRatio = 0.6180339887498949;

/**
 * The roll of a delay that begins with the sending itself: multiples of the golden section fall evenly between 0 and 1, over the numbers
 * of one end and over the microseconds at which ends send. So frames that left together do not come again together, without dice.
 */
export const spreadJitter = (number: number, now: number): number => ((number + now * 1_000) * goldenRatio) % 1;
