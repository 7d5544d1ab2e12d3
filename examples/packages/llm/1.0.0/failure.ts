// How a request to a language model fails, and how the node reports it.
//
// | code | when | another attempt |
// |---|---|---|
// | E.PARAMS.INVALID | the parameters are wrong, here or for the server (400, 404, 422) | no |
// | E.LLM.REFUSED | the server refuses the key or the request (401, 403, other 4xx, a redirect) | no |
// | E.LLM.RATE_LIMITED | too many requests (429) | yes |
// | E.LLM.UNAVAILABLE | the server cannot be reached, fails (5xx), or its answer breaks off | yes |
// | E.TIMEOUT | the time is over (also 408) | yes |
// | E.LLM.ANSWER | the answer cannot be used: no JSON, not as the schema says | yes |

export type LlmFailureCode =
  | "E.PARAMS.INVALID"
  | "E.LLM.REFUSED"
  | "E.LLM.RATE_LIMITED"
  | "E.LLM.UNAVAILABLE"
  | "E.TIMEOUT"
  | "E.LLM.ANSWER";

const permanentCodes: ReadonlySet<LlmFailureCode> = new Set(["E.PARAMS.INVALID", "E.LLM.REFUSED"]);

export class LlmFailure extends Error {
  override readonly name = "LlmFailure";
  readonly code: LlmFailureCode;
  /** Beside the error in the result of the node. */
  readonly outputs: Readonly<Record<string, unknown>>;

  constructor(code: LlmFailureCode, message: string, outputs: Readonly<Record<string, unknown>> = {}, cause?: unknown) {
    super(message, { cause });
    this.code = code;
    this.outputs = outputs;
  }
}

/** Thrown errors have only the codes of the scheduler; a returned failure may have any. */
export async function reportFailure(run: () => Promise<object>): Promise<object> {
  try {
    return await run();
  } catch (problem) {
    if (!(problem instanceof LlmFailure)) throw problem;
    const { code, message, outputs } = problem;
    const error = { code, message, isRetryable: !permanentCodes.has(code) };
    return { status: "failed", outputs: { ...outputs, error } };
  }
}

/** The failure that a refusal of the server stands for, with its own words. */
export function refusalOf(status: number, said: string, retryAfterMs: number | undefined): LlmFailure {
  const code = codeOfStatus(status);
  const wait = retryAfterMs === undefined ? "" : `; it asks to wait ${retryAfterMs} ms`;
  const message = `the server answered ${status}${said === "" ? "" : `: ${said}`}${wait}`;
  return new LlmFailure(code, message, { httpStatus: status, ...(retryAfterMs !== undefined && { retryAfterMs }) });
}

function codeOfStatus(status: number): LlmFailureCode {
  if (status === 429) return "E.LLM.RATE_LIMITED";
  if (status === 408 || status === 504) return "E.TIMEOUT";
  if (status >= 500) return "E.LLM.UNAVAILABLE";
  return [400, 404, 422].includes(status) ? "E.PARAMS.INVALID" : "E.LLM.REFUSED";
}
