// One request and its answer over fetch, with the retries that are safe. What the routes are is calls.ts; streams are events.ts.

import { faultOf, NoAnswer } from "./fault.ts";

/** What the client needs of the world; the defaults are those of browsers and Node. */
export interface Outside {
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>;
  /** Ends early, and rejects, when the signal is aborted. */
  readonly pause: (ms: number, signal?: AbortSignal) => Promise<void>;
  readonly newKey: () => string;
  /** 0 <= n < 1 */
  readonly roll: () => number;
}

export const theWorld: Outside = {
  fetch: (url, init) => fetch(url, init),
  pause: (ms, signal) =>
    new Promise((resolve, reject) => {
      const give = (): void => {
        clearTimeout(timer);
        reject(signal?.reason as Error);
      };
      const timer = setTimeout(() => {
        signal?.removeEventListener("abort", give);
        resolve();
      }, ms);
      if (signal?.aborted) give();
      else signal?.addEventListener("abort", give, { once: true });
    }),
  newKey: () => crypto.randomUUID(),
  roll: Math.random,
};

export interface RetryLimits {
  /** Further tries where the scheduler said to come back later (429, 503). */
  readonly busyMax: number;
  /** Further tries where nobody answered; only for calls that may be repeated without a second effect. */
  readonly lostMax: number;
}

export interface Connection {
  /** Without a slash at the end. */
  readonly url: string;
  readonly token: () => string | null;
  /** How long an answer may take. */
  readonly waitMs: number;
  readonly retry: RetryLimits;
  readonly outside: Outside;
}

export interface Exchange {
  readonly method: string;
  /** From the root, with its query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: RequestInit["body"];
  /** Done twice it has the effect of once. */
  readonly isRepeatable: boolean;
  readonly signal?: AbortSignal | undefined;
  /** A stream may stay open for as long as it likes; only its head must come in time. */
  readonly isStream?: boolean;
}

const pauses = { firstMs: 200, msMax: 5_000, retryAfterMsMax: 30_000 } as const;

export interface Answer {
  readonly response: Response;
  /** Empty of a stream that has begun. */
  readonly text: string;
}

/** A good answer, or a fault; whatever may be tried again has been. */
export async function exchange(connection: Connection, request: Exchange): Promise<Answer> {
  const { busyMax, lostMax } = connection.retry;
  for (let busy = 0, lost = 0; ; ) {
    const answer = await ask(connection, request).catch((cause: unknown) => {
      if (!(cause instanceof NoAnswer) || !request.isRepeatable || lost >= lostMax) throw cause;
      return null;
    });
    if (answer?.response.ok) return answer;
    const tries = answer === null ? ++lost : ++busy;
    const waitMs = answer === null ? growing(tries, connection.outside) : waitOf(answer.response, tries, connection.outside);
    if (answer !== null && (busy > busyMax || waitMs > pauses.retryAfterMsMax || !mayTry(answer.response.status, request)))
      throw faultOf(answer.response.status, answer.text, connection.url);
    await connection.outside.pause(waitMs, request.signal);
  }
}

/** Refused with 429 nothing has begun; with 503 that is not known. */
const mayTry = (status: number, { isRepeatable }: Exchange): boolean => status === 429 || (status === 503 && isRepeatable);

async function ask(connection: Connection, request: Exchange): Promise<Answer> {
  const late = new AbortController();
  // A timer of our own, and not AbortSignal.timeout: a stream's must end once its head has come.
  const hurry = new AbortController();
  connection.outside.pause(connection.waitMs, hurry.signal).then(
    () => late.abort(),
    () => undefined, // the answer came first
  );
  const signals = [late.signal, ...(request.signal === undefined ? [] : [request.signal])];
  const token = connection.token();
  try {
    const response = await connection.outside.fetch(connection.url + request.path, {
      method: request.method,
      headers: { ...request.headers, ...(token !== null && { authorization: `Bearer ${token}` }) },
      signal: AbortSignal.any(signals),
      ...(request.body !== undefined && { body: request.body }),
    });
    return { response, text: request.isStream && response.ok ? "" : await response.text() };
  } catch (cause) {
    if (request.signal?.aborted) throw request.signal.reason;
    throw new NoAnswer(connection.url, cause, late.signal.aborted);
  } finally {
    hurry.abort();
  }
}

function waitOf({ headers }: Response, tries: number, outside: Outside): number {
  const seconds = Number(headers.get("retry-after") ?? Number.NaN);
  // Never all at the same instant, whatever the scheduler said to everybody.
  return Number.isFinite(seconds) ? seconds * 1_000 + outside.roll() * pauses.firstMs : growing(tries, outside);
}

export const growing = (tries: number, { roll }: Pick<Outside, "roll">): number =>
  Math.min(pauses.msMax, pauses.firstMs * 2 ** (tries - 1)) * (0.5 + roll() / 2);
