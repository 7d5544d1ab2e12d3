// A middleware's call of the next of its chain, as its handler sees it. How the call travels is pending-middleware-calls.ts.

import { fault, isRecord, type JsonObject } from "@astraflow/protocol";
import { NextError } from "@astraflow/sdk";
import type { LocalAttempt } from "../attempts/attempt.ts";
import { checkReportText } from "../attempts/report-limits.ts";

/** A question that wants to leave: the text of a JSON object with all that is not a name. */
export interface MiddlewareCallDraft {
  readonly argumentsJson: string;
}

export type MiddlewareCallAnswer =
  | { readonly result: JsonObject }
  | { readonly error: { readonly code: string; readonly message: string }; readonly trace: JsonObject };

export interface MiddlewareCallPorts {
  after(ms: number, call: () => void): () => void;
  /** Sends the call; `answer` is called at most once. The returned function takes the call back. */
  callNext(attempt: LocalAttempt, draft: MiddlewareCallDraft, answer: (answer: MiddlewareCallAnswer) => void): () => void;
}

export interface MiddlewareCallArguments {
  readonly payload?: JsonObject | undefined;
  readonly hostCtx?: JsonObject | undefined;
  readonly middlewareCtx?: JsonObject | undefined;
  readonly timeoutMs?: number | undefined;
}

/** The scheduler keeps the time; only one that cannot be reached is not waited for longer than this beyond it. */
const schedulerLatenessMs = 5_000;
const timerMsMax = 2 ** 31 - 1;

export function callNext(attempt: LocalAttempt, ports: MiddlewareCallPorts, args: MiddlewareCallArguments): Promise<JsonObject> {
  const { chain_index, node_id } = attempt.dispatch;
  if (chain_index === undefined)
    return Promise.reject(new NextError("next_no_chain", `node ${node_id} is not a middleware, so next has nothing to call`));
  return new Promise((resolve, reject) => {
    const draft = encodeArguments(args);
    const { signal } = attempt.stopSignal;
    signal.throwIfAborted();
    let isDone = false;
    let cancelTimer = (): void => {};
    // Asking may end the attempt: what leaves can find the session gone.
    let forget = (): void => {};
    const done = (settle: () => void): void => {
      if (isDone) return;
      isDone = true;
      cancelTimer();
      signal.removeEventListener("abort", stop);
      settle();
    };
    const stop = (): void => giveUp(signal.reason as Error);
    const giveUp = (why: Error): void => {
      done(() => reject(why));
      forget();
    };
    signal.addEventListener("abort", stop, { once: true });
    const takeBack = ports.callNext(attempt, draft, (answer) =>
      done(() =>
        "error" in answer ? reject(new NextError(answer.error.code, answer.error.message, answer.trace)) : resolve(answer.result),
      ),
    );
    if (signal.aborted) takeBack();
    else forget = takeBack;
    const { timeoutMs } = args;
    if (timeoutMs === undefined || isDone) return;
    cancelTimer = ports.after(Math.min(timeoutMs + schedulerLatenessMs, timerMsMax), () =>
      giveUp(new NextError("next_timeout", `no result within ${timeoutMs} ms, and no answer from the scheduler`)),
    );
  });
}

function encodeArguments({ payload, hostCtx, middlewareCtx, timeoutMs }: MiddlewareCallArguments): MiddlewareCallDraft {
  for (const [name, value] of Object.entries({ payload, hostCtx, middlewareCtx }))
    if (value !== undefined && !isRecord(value)) throw fault("E.FRAME.INVALID", `${name} of next must be an object`);
  if (timeoutMs !== undefined && !(Number.isSafeInteger(timeoutMs) && timeoutMs >= 1))
    throw fault("E.FRAME.INVALID", "timeoutMs of next must be a whole number of milliseconds above 0");
  const json = JSON.stringify({ payload, hostCtx, middlewareCtx, timeoutMs });
  const problem = checkReportText("the call of next", json);
  if (problem !== null) throw problem;
  return { argumentsJson: json };
}
