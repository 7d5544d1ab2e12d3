// Sends commands to the engine in batches, gives each answer to its caller and each effect to its listeners.
// Only plain data crosses, as the engine may run in another thread.

import type { AnswerBody, Command, CommandRequest, Effect, FaultData } from "@astraflow/engine";
import { type Fault, fault, isFaultCode } from "@astraflow/protocol";

/** Gets the one answer to a command. Exactly one of the two is not null. */
export type AnswerHandler = (body: AnswerBody | null, fault: FaultData | null) => void;

/** Effects that answer no command. */
export type PushedEffectType = Exclude<Effect["type"], "answer">;
export type PushedEffect<K extends PushedEffectType> = Extract<Effect, { type: K }>;

type EffectListener = (effect: never) => void;

export class EngineClient {
  readonly #push: (items: readonly CommandRequest[]) => void;
  readonly #report: (problem: unknown) => void;
  readonly #pendingAnswers = new Map<number, AnswerHandler>();
  readonly #listeners = new Map<PushedEffectType, Set<EffectListener>>();
  #batch: CommandRequest[] = [];
  #nextRef = 1;
  #closedWith: FaultData | null = null;

  /** `report`: a listener threw, which is a bug of ours and must not affect the other listeners. */
  constructor(push: (items: readonly CommandRequest[]) => void, { report }: { readonly report: (problem: unknown) => void }) {
    this.#push = push;
    this.#report = report;
  }

  get pendingCount(): number {
    return this.#pendingAnswers.size;
  }

  /** For the hot path: no promise. The handler is never called before `send` has returned. */
  send(command: Command, handler: AnswerHandler): void {
    const ref = this.#nextRef++;
    this.#pendingAnswers.set(ref, handler);
    this.#batch.push({ ref, command });
    // Commands of one tick leave as one batch: a socket's chunk often holds many frames.
    if (this.#batch.length === 1) queueMicrotask(() => this.#flush());
  }

  /** Rejects with a Fault. */
  request(command: Command): Promise<AnswerBody> {
    return new Promise((resolve, reject) => {
      this.send(command, (body, fault) => (body === null ? reject(faultFromData(fault ?? unreachableFault)) : resolve(body)));
    });
  }

  /** The engine's side: effects of one turn, after its commit. Never throws. */
  handleEffects(effects: readonly Effect[]): void {
    for (const effect of effects) {
      if (effect.type === "answer") this.#resolveAnswer(effect.ref, effect.body, effect.fault);
      else this.#notifyListeners(effect);
    }
  }

  /** Listens to one type of effect; the returned function ends that. */
  on<K extends PushedEffectType>(kind: K, handler: (effect: PushedEffect<K>) => void): () => void {
    const listening = this.#listeners.get(kind) ?? new Set<EffectListener>();
    this.#listeners.set(kind, listening.add(handler));
    return () => listening.delete(handler);
  }

  /** The engine is gone: every pending command is answered with this fault, and every later one too. */
  close(fault: FaultData): void {
    this.#closedWith ??= fault;
    this.#failAllPending(fault);
  }

  #flush(): void {
    const items = this.#batch;
    this.#batch = [];
    if (this.#closedWith !== null) return this.#failAllPending(this.#closedWith);
    try {
      this.#push(items);
    } catch (problem) {
      this.#report(problem);
      for (const item of items) this.#resolveAnswer(item.ref, null, unreachableFault);
    }
  }

  #resolveAnswer(ref: number, body: AnswerBody | null, fault: FaultData | null): void {
    const handler = this.#pendingAnswers.get(ref);
    // The command was answered by `close` already.
    if (handler === undefined) return;
    this.#pendingAnswers.delete(ref);
    try {
      handler(body, fault);
    } catch (problem) {
      this.#report(problem);
    }
  }

  #notifyListeners(effect: Exclude<Effect, { type: "answer" }>): void {
    for (const listener of this.#listeners.get(effect.type) ?? [])
      try {
        listener(effect as never);
      } catch (problem) {
        this.#report(problem);
      }
  }

  #failAllPending(fault: FaultData): void {
    for (const ref of [...this.#pendingAnswers.keys()]) this.#resolveAnswer(ref, null, fault);
  }
}

/** The answer as the only kind that its command can have. */
export function expectAnswer<K extends AnswerBody["of"]>(answer: AnswerBody, of: K): Extract<AnswerBody, { of: K }> {
  if (answer.of !== of) throw fault("E.INTERNAL", `the engine answered with ${answer.of} instead of ${of}`);
  return answer as Extract<AnswerBody, { of: K }>;
}

const unreachableFault: FaultData = { code: "E.INTERNAL", message: "the engine could not be reached" };

/** Turns a fault that crossed threads as data back into an error. An unknown code becomes E.INTERNAL. */
export function faultFromData(data: FaultData): Fault {
  return isFaultCode(data.code)
    ? fault(data.code, data.message, data.details)
    : fault("E.INTERNAL", `unknown fault code ${data.code}: ${data.message}`, data.details);
}
