// Calls of middlewares that wait for an answer: asked once per session until acked, asked again in a new session, answered once. They end
// with their attempt. That an attempt takes no slot while it waits is attempt-table.ts; what a handler sees of it, next.ts.

import { type JsonObject, limits, type NextResponsePayload } from "@astraflow/protocol";
import type { Attempt } from "./attempt.ts";
import type { NextAnswer, NextDraft } from "./next.ts";

interface Call {
  readonly id: string;
  readonly attempt: Attempt;
  readonly payload: string;
  readonly answer: (answer: NextAnswer) => void;
  /** The scheduler has the question; a new session may find that it no longer knows where the answer goes. */
  isAcked: boolean;
}

export interface Question {
  readonly id: string;
  readonly task: string;
  readonly payload: string;
}

export interface CallPorts {
  nextId(): string;
  say(question: Question): void;
  /** The attempt waits, or no longer waits for so many of its calls. */
  rest(attempt: Attempt): void;
  wake(attempt: Attempt, calls: number): void;
}

export class Calls {
  readonly #ports: CallPorts;
  readonly #calls = new Map<string, Call>();

  constructor(ports: CallPorts) {
    this.#ports = ports;
  }

  /** A middleware calls the next of its chain. What is returned takes the call back. */
  begin(attempt: Attempt, draft: NextDraft, answer: Call["answer"]): () => void {
    if (attempt.phase !== "running") {
      answer({ error: { code: "next_cancelled", message: `task ${attempt.task} is no longer this worker's` }, trace: {} });
      return () => {};
    }
    // Of this boot alone, so two workers' questions never meet.
    const id = this.#ports.nextId();
    const payload = payloadOf(id, attempt, draft);
    this.#calls.set(id, { id, attempt, payload, answer, isAcked: false });
    this.#ports.say({ id, task: attempt.task, payload });
    this.#ports.rest(attempt);
    return () => this.#end(id, null);
  }

  acked(id: string): void {
    const call = this.#calls.get(id);
    if (call !== undefined) call.isAcked = true;
  }

  /** In a fresh session: what the last one had taken and not answered. What it had not taken is still in the outbox. */
  askAgain(): void {
    for (const call of this.#calls.values()) {
      if (!call.isAcked) continue;
      call.isAcked = false;
      this.#ports.say({ id: call.id, task: call.attempt.task, payload: call.payload });
    }
  }

  /** An answer that nobody waits for any more, as a repeat, is let go. */
  answered(response: NextResponsePayload): void {
    this.#end(response.requestId, answerOf(response));
  }

  /** No answer will come, if this was a call at all. */
  failed(id: string, message: string): void {
    this.#end(id, { error: { code: "next_unavailable", message }, trace: {} });
  }

  /** The attempt is over. */
  forgetAllOf(attempt: Attempt): void {
    if (attempt.calls === 0) return;
    for (const call of this.#calls.values()) if (call.attempt === attempt) this.#end(call.id, null);
  }

  #end(id: string, answer: NextAnswer | null): void {
    const call = this.#calls.get(id);
    if (call === undefined) return;
    this.#calls.delete(id);
    if (answer !== null) call.answer(answer);
    this.#ports.wake(call.attempt, 1);
  }
}

function payloadOf(requestId: string, { run, task, fence, dispatch }: Attempt, draft: NextDraft): string {
  const { node_id, chain_index } = dispatch;
  const own = { nodeId: node_id, middlewareId: node_id, chainIndex: chain_index };
  const names = JSON.stringify({ requestId, runId: run, ...own, task_id: task, fence });
  return draft.words === "{}" ? names : `${names.slice(0, -1)},${draft.words.slice(1)}`;
}

function answerOf({ result, error, trace = {} }: NextResponsePayload): NextAnswer {
  if (error === undefined) return { result: result ?? {} };
  return {
    error: { code: textIn(error, "code") ?? "next_failed", message: textIn(error, "message") ?? "no reason was given" },
    trace,
  };
}

function textIn(error: JsonObject, key: string): string | undefined {
  const value = error[key];
  return typeof value === "string" && value !== "" ? value.slice(0, limits.textCharsMax) : undefined;
}
