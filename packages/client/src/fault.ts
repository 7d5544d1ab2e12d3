// The two errors of a call: the scheduler refused it, or there was no answer. Only the first proves that a decision was made.

import { type ErrorBody, faultCodes, isFaultCode } from "@astraflow/protocol";

/** The scheduler answered and refused. `code` is a promise, the message may improve. */
export class ApiFault extends Error {
  override readonly name = "ApiFault";
  /** A fault code, or `HTTP <status>` where what answered does not speak as a scheduler does. */
  readonly code: string;
  readonly status: number;
  readonly requestId: string | undefined;
  readonly details: ErrorBody["details"];

  constructor(status: number, body: Omit<ErrorBody, "error"> & { readonly error: string }) {
    super(body.message);
    this.code = body.error;
    this.status = status;
    this.requestId = body.requestId;
    this.details = body.details;
  }

  /** Whether asking again later may help. */
  get isRetryable(): boolean {
    return isFaultCode(this.code) ? faultCodes[this.code].retry : this.status === 429 || this.status === 503;
  }

  /** The API's error body. */
  toJSON(): { error: string; message: string; requestId?: string; details?: ErrorBody["details"] } {
    const { code: error, message, requestId, details } = this;
    return { error, message, ...(requestId !== undefined && { requestId }), ...(details !== undefined && { details }) };
  }
}

/** No answer, not in time, or not in JSON. Whether the request had an effect is unknown. */
export class NoAnswer extends Error {
  override readonly name = "NoAnswer";
  readonly url: string;
  readonly isLate: boolean;

  constructor(url: string, cause: unknown, isLate = false) {
    super(isLate ? `${url} did not answer in time` : `${url} does not answer`, { cause });
    this.url = url;
    this.isLate = isLate;
  }
}

/** A refusal from whatever body came with it. */
export function toApiFault(status: number, text: string, url: string): ApiFault {
  const body = parseErrorBody(text);
  return typeof body?.error === "string" && typeof body.message === "string"
    ? new ApiFault(status, body as ErrorBody)
    : new ApiFault(status, { error: `HTTP ${status}`, message: `${url} returned HTTP ${status} without an error body.` });
}

function parseErrorBody(text: string): { error?: unknown; message?: unknown } | null {
  try {
    return JSON.parse(text) as { error?: unknown; message?: unknown } | null;
  } catch {
    // Proxies answer with pages; the status is all that is known then.
    return null;
  }
}
