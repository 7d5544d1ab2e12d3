// The wire between doors and engine: commands out in batches, effects in, each answer back to whoever asked.
// Plain data only, so the engine may live in another thread. What a command means is decided there, never here.

import type { AnswerBody, Command, Effect, FaultData, Inbound } from "@astraflow/engine";
import { type Fault, fault, isFaultCode } from "@astraflow/protocol";

/** Hears the one answer to a command. Exactly one of the two is not null. */
export type Hear = (body: AnswerBody | null, fault: FaultData | null) => void;

/** What the engine says without having been asked. */
export type News = Exclude<Effect["type"], "answer">;
export type NewsOf<K extends News> = Extract<Effect, { type: K }>;

export interface Link {
  /** For the hot path: no promise. `hear` is never called before `post` has returned. */
  post(command: Command, hear: Hear): void;
  /** Rejects with a Fault. */
  ask(command: Command): Promise<AnswerBody>;
  /** The engine's side: effects of one turn, after its commit. Never throws. */
  deliver(effects: readonly Effect[]): void;
  /** Listens to one kind of news; the returned function ends that. */
  on<K extends News>(kind: K, hear: (news: NewsOf<K>) => void): () => void;
  /** The engine is gone: everything pending is answered with this fault, and so is everything posted later. */
  close(why: FaultData): void;
  readonly pending: number;
}

export interface LinkOptions {
  /** A listener threw: a bug of a door, which must not keep the others from hearing. */
  readonly report: (problem: unknown) => void;
}

type Ear = (news: never) => void;

export function createLink(push: (items: readonly Inbound[]) => void, options: LinkOptions): Link {
  const asked = new Map<number, Hear>();
  const ears = new Map<News, Set<Ear>>();
  let batch: Inbound[] = [];
  let nextRef = 1;
  let gone: FaultData | null = null;

  const answer = (ref: number, body: AnswerBody | null, why: FaultData | null): void => {
    const hear = asked.get(ref);
    // An answer nobody waits for: the engine answered after `close` had already spoken for it.
    if (hear === undefined) return;
    asked.delete(ref);
    try {
      hear(body, why);
    } catch (problem) {
      options.report(problem);
    }
  };

  const tell = (effect: Exclude<Effect, { type: "answer" }>): void => {
    const hearing = ears.get(effect.type);
    if (hearing === undefined) return;
    for (const ear of hearing) {
      try {
        ear(effect as never);
      } catch (problem) {
        options.report(problem);
      }
    }
  };

  const answerAll = (why: FaultData): void => {
    for (const ref of [...asked.keys()]) answer(ref, null, why);
  };

  // What is posted in one tick leaves as one batch: a socket's chunk often holds many frames.
  const flush = (): void => {
    const items = batch;
    batch = [];
    if (gone !== null) return answerAll(gone);
    try {
      push(items);
    } catch (problem) {
      options.report(problem);
      for (const item of items) answer(item.ref, null, lost);
    }
  };

  const post = (command: Command, hear: Hear): void => {
    const ref = nextRef++;
    asked.set(ref, hear);
    batch.push({ ref, command });
    if (batch.length === 1) queueMicrotask(flush);
  };

  return {
    post,
    ask: (command) =>
      new Promise((resolve, reject) => {
        post(command, (body, why) => (body === null ? reject(faultOf(why ?? lost)) : resolve(body)));
      }),
    deliver(effects) {
      for (const effect of effects) {
        if (effect.type === "answer") answer(effect.ref, effect.body, effect.fault);
        else tell(effect);
      }
    },
    on(kind, hear) {
      const hearing = ears.get(kind) ?? new Set<Ear>();
      ears.set(kind, hearing);
      hearing.add(hear as Ear);
      return () => hearing.delete(hear as Ear);
    },
    close(why) {
      gone ??= why;
      answerAll(why);
    },
    get pending() {
      return asked.size;
    },
  };
}

const lost: FaultData = { code: "E.INTERNAL", message: "the engine could not be reached" };

/** A fault that crossed threads as data, as the error it was. A code nobody knows becomes E.INTERNAL. */
export function faultOf(data: FaultData): Fault {
  return isFaultCode(data.code)
    ? fault(data.code, data.message, data.details)
    : fault("E.INTERNAL", `unknown fault code ${data.code}: ${data.message}`, data.details);
}
