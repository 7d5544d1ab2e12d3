// Sends commands to the engine in batches, gives each answer to its caller and each effect to its listeners.
// Only plain data crosses, as the engine may run in another thread.

import type { AnswerBody, Command, CommandRequest, Effect, FaultData } from "@astraflow/engine";
import { type Fault, fault, isFaultCode } from "@astraflow/protocol";

/** Gets the one answer to a command. Exactly one of the two is not null. */
export type AnswerHandler = (body: AnswerBody | null, fault: FaultData | null) => void;

/** Effects that answer no command. */
export type PushedEffectType = Exclude<Effect["type"], "answer">;
export type PushedEffect<K extends PushedEffectType> = Extract<Effect, { type: K }>;

export interface EngineClient {
  /** For the hot path: no promise. The handler is never called before `send` has returned. */
  send(command: Command, handler: AnswerHandler): void;
  /** Rejects with a Fault. */
  request(command: Command): Promise<AnswerBody>;
  /** The engine's side: effects of one turn, after its commit. Never throws. */
  handleEffects(effects: readonly Effect[]): void;
  /** Listens to one type of effect; the returned function ends that. */
  on<K extends PushedEffectType>(kind: K, handler: (effect: PushedEffect<K>) => void): () => void;
  /** The engine is gone: every pending command is answered with this fault, and every later one too. */
  close(fault: FaultData): void;
  readonly pendingCount: number;
}

export interface EngineClientOptions {
  /** A listener threw: a bug of ours, which must not affect the other listeners. */
  readonly report: (problem: unknown) => void;
}

type EffectListener = (effect: never) => void;

export function createEngineClient(push: (items: readonly CommandRequest[]) => void, options: EngineClientOptions): EngineClient {
  const pendingAnswers = new Map<number, AnswerHandler>();
  const listeners = new Map<PushedEffectType, Set<EffectListener>>();
  let batch: CommandRequest[] = [];
  let nextRef = 1;
  let closedWith: FaultData | null = null;

  const resolveAnswer = (ref: number, body: AnswerBody | null, fault: FaultData | null): void => {
    const handler = pendingAnswers.get(ref);
    // The command was answered by `close` already.
    if (handler === undefined) return;
    pendingAnswers.delete(ref);
    try {
      handler(body, fault);
    } catch (problem) {
      options.report(problem);
    }
  };

  const notifyListeners = (effect: Exclude<Effect, { type: "answer" }>): void => {
    const listening = listeners.get(effect.type);
    if (listening === undefined) return;
    for (const listener of listening) {
      try {
        listener(effect as never);
      } catch (problem) {
        options.report(problem);
      }
    }
  };

  const failAllPending = (fault: FaultData): void => {
    for (const ref of [...pendingAnswers.keys()]) resolveAnswer(ref, null, fault);
  };

  // Commands of one tick leave as one batch: a socket's chunk often holds many frames.
  const flush = (): void => {
    const items = batch;
    batch = [];
    if (closedWith !== null) return failAllPending(closedWith);
    try {
      push(items);
    } catch (problem) {
      options.report(problem);
      for (const item of items) resolveAnswer(item.ref, null, unreachableFault);
    }
  };

  const send = (command: Command, handler: AnswerHandler): void => {
    const ref = nextRef++;
    pendingAnswers.set(ref, handler);
    batch.push({ ref, command });
    if (batch.length === 1) queueMicrotask(flush);
  };

  return {
    send,
    request: (command) =>
      new Promise((resolve, reject) => {
        send(command, (body, fault) => (body === null ? reject(faultFromData(fault ?? unreachableFault)) : resolve(body)));
      }),
    handleEffects(effects) {
      for (const effect of effects) {
        if (effect.type === "answer") resolveAnswer(effect.ref, effect.body, effect.fault);
        else notifyListeners(effect);
      }
    },
    on(kind, handler) {
      const listening = listeners.get(kind) ?? new Set<EffectListener>();
      listeners.set(kind, listening);
      listening.add(handler as EffectListener);
      return () => listening.delete(handler as EffectListener);
    },
    close(fault) {
      closedWith ??= fault;
      failAllPending(fault);
    },
    get pendingCount() {
      return pendingAnswers.size;
    },
  };
}

const unreachableFault: FaultData = { code: "E.INTERNAL", message: "the engine could not be reached" };

/** Turns a fault that crossed threads as data back into an error. An unknown code becomes E.INTERNAL. */
export function faultFromData(data: FaultData): Fault {
  return isFaultCode(data.code)
    ? fault(data.code, data.message, data.details)
    : fault("E.INTERNAL", `unknown fault code ${data.code}: ${data.message}`, data.details);
}
