// One request and its response over fetch, with the retries that are safe.

import { NoAnswer, toApiFault } from "./fault.ts";

/** What the client needs from its environment; the defaults work in browsers and Node. */
export interface ClientEnvironment {
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>;
  /** Ends early, and rejects, when the signal is aborted. */
  readonly pause: (ms: number, signal?: AbortSignal) => Promise<void>;
  readonly newIdempotencyKey: () => string;
  /** 0 <= n < 1 */
  readonly random: () => number;
}

export const defaultEnvironment: ClientEnvironment = {
  fetch: (url, init) => fetch(url, init),
  pause: (ms, signal) =>
    new Promise((resolve, reject) => {
      const abort = (): void => {
        clearTimeout(timer);
        reject(signal?.reason as Error);
      };
      const timer = setTimeout(() => {
        signal?.removeEventListener("abort", abort);
        resolve();
      }, ms);
      if (signal?.aborted) abort();
      else signal?.addEventListener("abort", abort, { once: true });
    }),
  newIdempotencyKey: () => crypto.randomUUID(),
  random: Math.random,
};

export interface RetryLimits {
  /** Retries when the scheduler is busy (429, 503). */
  readonly busyMax: number;
  /** Retries when there was no answer; only for calls that may be repeated without a second effect. */
  readonly lostMax: number;
}

export interface ApiConnection {
  /** Without a slash at the end. */
  readonly url: string;
  readonly token: () => string | null;
  /** How long an answer may take. */
  readonly waitMs: number;
  readonly retry: RetryLimits;
  readonly environment: ClientEnvironment;
}

export interface ClientRequest {
  readonly method: string;
  /** From the root, with its query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: RequestInit["body"];
  /** Repeating it has no second effect. */
  readonly isRepeatable: boolean;
  readonly signal?: AbortSignal | undefined;
  /** A stream may stay open; only its head must arrive in time. */
  readonly isStream?: boolean;
}

const retryPauses = { firstMs: 200, msMax: 5_000, retryAfterMsMax: 30_000 } as const;

export interface ClientResponse {
  readonly response: Response;
  /** Empty for a stream. */
  readonly text: string;
}

/** A successful response; throws after all safe retries. */
export async function sendWithRetries(connection: ApiConnection, request: ClientRequest): Promise<ClientResponse> {
  const { busyMax, lostMax } = connection.retry;
  for (let busyTries = 0, lostTries = 0; ; ) {
    const answer = await sendOnce(connection, request).catch((cause: unknown) => {
      if (!(cause instanceof NoAnswer) || !request.isRepeatable || lostTries >= lostMax) throw cause;
      return null;
    });
    if (answer?.response.ok) return answer;
    const tries = answer === null ? ++lostTries : ++busyTries;
    const waitMs = retryDelayMs(answer?.response, tries, connection.environment);
    if (
      answer !== null &&
      (busyTries > busyMax || waitMs > retryPauses.retryAfterMsMax || !isRetryAllowed(answer.response.status, request))
    )
      throw toApiFault(answer.response.status, answer.text, connection.url);
    await connection.environment.pause(waitMs, request.signal);
  }
}

/** A 429 means that nothing was started; after a 503 that is unknown. */
const isRetryAllowed = (status: number, { isRepeatable }: ClientRequest): boolean =>
  status === 429 || (status === 503 && isRepeatable);

async function sendOnce(connection: ApiConnection, request: ClientRequest): Promise<ClientResponse> {
  const timeout = new AbortController();
  // Not AbortSignal.timeout, because the timeout of a stream must end once its head has arrived.
  const answered = new AbortController();
  connection.environment.pause(connection.waitMs, answered.signal).then(
    () => timeout.abort(),
    () => undefined, // the answer came first
  );
  const signals = [timeout.signal, ...(request.signal === undefined ? [] : [request.signal])];
  const token = connection.token();
  try {
    const response = await connection.environment.fetch(connection.url + request.path, {
      method: request.method,
      headers: { ...request.headers, ...(token !== null && { authorization: `Bearer ${token}` }) },
      signal: AbortSignal.any(signals),
      ...(request.body !== undefined && { body: request.body }),
    });
    return { response, text: request.isStream && response.ok ? "" : await response.text() };
  } catch (cause) {
    if (request.signal?.aborted) throw request.signal.reason;
    throw new NoAnswer(connection.url, cause, timeout.signal.aborted);
  } finally {
    answered.abort();
  }
}

function retryDelayMs(response: Response | undefined, tries: number, environment: ClientEnvironment): number {
  const seconds = Number(response?.headers.get("retry-after") ?? Number.NaN);
  // With jitter, so that clients do not all retry at the same instant.
  return Number.isFinite(seconds) ? seconds * 1_000 + environment.random() * retryPauses.firstMs : backoffMs(tries, environment);
}

export const backoffMs = (tries: number, { random }: Pick<ClientEnvironment, "random">): number =>
  Math.min(retryPauses.msMax, retryPauses.firstMs * 2 ** (tries - 1)) * (0.5 + random() / 2);
