// Calls of middlewares that wait for an answer: asked again in a new session, answered once, ended with their attempt.

import { type JsonObject, limits, type NextResponsePayload } from "@astraflow/protocol";
import type { LocalAttempt } from "../attempts/attempt.ts";
import type { MiddlewareCallAnswer, MiddlewareCallDraft } from "../handlers/middleware-call.ts";

interface PendingNextCall {
  readonly id: string;
  readonly attempt: LocalAttempt;
  readonly payload: string;
  readonly answer: (answer: MiddlewareCallAnswer) => void;
  /** The scheduler has the question; a new session may find that it no longer knows where the answer goes. */
  isAcked: boolean;
}

export interface MiddlewareCallRequest {
  readonly id: string;
  readonly task: string;
  readonly payload: string;
}

export interface PendingMiddlewareCallPorts {
  nextFrameId(): string;
  sendRequest(question: MiddlewareCallRequest): void;
  /** The attempt waits, or no longer waits for so many of its calls. */
  suspendAttempt(attempt: LocalAttempt): void;
  resumeAttempt(attempt: LocalAttempt, calls: number): void;
}

export class PendingMiddlewareCalls {
  readonly #ports: PendingMiddlewareCallPorts;
  readonly #calls = new Map<string, PendingNextCall>();

  constructor(ports: PendingMiddlewareCallPorts) {
    this.#ports = ports;
  }

  /** A middleware calls the next of its chain. What is returned takes the call back. */
  startCall(attempt: LocalAttempt, draft: MiddlewareCallDraft, answer: PendingNextCall["answer"]): () => void {
    if (attempt.phase !== "running") {
      answer({ error: { code: "next_cancelled", message: `task ${attempt.task} is no longer this worker's` }, trace: {} });
      return () => {};
    }
    // Of this boot alone, so two workers' questions never meet.
    const id = this.#ports.nextFrameId();
    const payload = encodeRequest(id, attempt, draft);
    this.#calls.set(id, { id, attempt, payload, answer, isAcked: false });
    this.#ports.sendRequest({ id, task: attempt.task, payload });
    this.#ports.suspendAttempt(attempt);
    return () => this.#finishCall(id, null);
  }

  markAcked(id: string): void {
    const call = this.#calls.get(id);
    if (call !== undefined) call.isAcked = true;
  }

  /** In a fresh session: what the last one had taken and not answered. What it had not taken is still in the outbox. */
  resendUnanswered(): void {
    for (const call of this.#calls.values()) {
      if (!call.isAcked) continue;
      call.isAcked = false;
      this.#ports.sendRequest({ id: call.id, task: call.attempt.task, payload: call.payload });
    }
  }

  /** An answer that nobody waits for any more, as a repeat, is let go. */
  handleResponse(response: NextResponsePayload): void {
    this.#finishCall(response.requestId, readAnswer(response));
  }

  /** No answer will come, if this was a call at all. */
  failCall(id: string, message: string): void {
    this.#finishCall(id, { error: { code: "next_unavailable", message }, trace: {} });
  }

  cancelCallsOf(attempt: LocalAttempt): void {
    if (attempt.pendingCalls === 0) return;
    for (const call of this.#calls.values()) if (call.attempt === attempt) this.#finishCall(call.id, null);
  }

  #finishCall(id: string, answer: MiddlewareCallAnswer | null): void {
    const call = this.#calls.get(id);
    if (call === undefined) return;
    this.#calls.delete(id);
    if (answer !== null) call.answer(answer);
    this.#ports.resumeAttempt(call.attempt, 1);
  }
}

function encodeRequest(requestId: string, { run, task, fence, dispatch }: LocalAttempt, draft: MiddlewareCallDraft): string {
  const { node_id, chain_index } = dispatch;
  const own = { nodeId: node_id, middlewareId: node_id, chainIndex: chain_index };
  const names = JSON.stringify({ requestId, runId: run, ...own, task_id: task, fence });
  return draft.argumentsJson === "{}" ? names : `${names.slice(0, -1)},${draft.argumentsJson.slice(1)}`;
}

function readAnswer({ result, error, trace = {} }: NextResponsePayload): MiddlewareCallAnswer {
  if (error === undefined) return { result: result ?? {} };
  return {
    error: { code: textField(error, "code") ?? "next_failed", message: textField(error, "message") ?? "no reason was given" },
    trace,
  };
}

function textField(error: JsonObject, key: string): string | undefined {
  const value = error[key];
  return typeof value === "string" && value !== "" ? value.slice(0, limits.textCharsMax) : undefined;
}
