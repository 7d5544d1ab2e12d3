// What the link's thread and the handlers' thread say to each other: plain data, many words in one message. An attempt is named by task
// and fence on both sides; what its handler returned crosses as text, because only that thread can read it.

import type { DispatchPayload, JsonObject } from "@astraflow/protocol";
import type { ExtDraft } from "./ext.ts";
import type { ExtFrame } from "./link-ports.ts";
import type { NextAnswer, NextDraft } from "./next.ts";
import type { WrittenOutcome } from "./outcome.ts";
import type { RemovedReason, ResourceSettings } from "./resource.ts";

export interface AttemptName {
  readonly task: string;
  readonly fence: number;
}

export type ToHost =
  | { readonly type: "start"; readonly fence: number; readonly dispatch: DispatchPayload }
  | ({ readonly type: "stop"; readonly reason: string } & AttemptName)
  | { readonly type: "ext"; readonly frame: ExtFrame }
  | { readonly type: "ext-answer"; readonly ticket: number; readonly isTaken: boolean }
  | { readonly type: "next-answer"; readonly ticket: number; readonly answer: NextAnswer }
  /** Answered with the same number as soon as the thread gets to it. */
  | { readonly type: "ping"; readonly ping: number }
  /** Nothing more is wanted: the thread may end once its handlers have let go. */
  | { readonly type: "end" };

export type FromHost =
  /** `kept`: resources that results have named and that outlived an earlier thread. */
  | { readonly type: "loaded"; readonly shelf: HostShelf; readonly kept: readonly string[] }
  /** `isSettled`: its handler came back with it, as most do. */
  | ({ readonly type: "finished"; readonly written: WrittenOutcome; readonly isSettled: boolean } & AttemptName)
  | ({ readonly type: "settled" } & AttemptName)
  | ({ readonly type: "feedback"; readonly input: string } & AttemptName)
  | { readonly type: "listening"; readonly types: readonly string[] }
  | { readonly type: "ext"; readonly ticket: number; readonly draft: ExtDraft }
  | ({ readonly type: "next"; readonly ticket: number; readonly draft: NextDraft } & AttemptName)
  | { readonly type: "next-forget"; readonly ticket: number }
  /** Groups of processes that must not outlive the thread. */
  | { readonly type: "spawned"; readonly pid: number }
  | { readonly type: "reaped"; readonly pid: number }
  /** A resource of the thread is named in a result; one of those is gone. */
  | { readonly type: "announced"; readonly resource: string }
  | { readonly type: "removed"; readonly resource: string; readonly reason: RemovedReason }
  /** With what the thread keeps, in numbers. */
  | { readonly type: "pong"; readonly ping: number; readonly resources: Readonly<Record<string, number>> }
  | { readonly type: "report"; readonly message: string; readonly cause: string };

/** The packages as the link's side knows them: what is offered, and what can be called, without the code. */
export interface HostShelf {
  readonly packages: readonly {
    readonly name: string;
    readonly version: string;
    readonly dir: string;
    readonly written: JsonObject;
    readonly nodeTypes: readonly string[];
  }[];
  readonly problems: readonly { readonly dir: string; readonly code: string; readonly message: string }[];
}

export interface HostSettings {
  readonly tenant: string;
  readonly packagesDir: string;
  /** Parent of the attempts' own directories. */
  readonly workRoot: string;
  readonly resources: ResourceSettings;
  readonly resourceDir: string;
  /** What the thread's heap may grow to; absent: as Node decides. One that outgrows it ends the thread, not the process. */
  readonly heapMbMax?: number;
}

export const nameOf = ({ task, fence }: AttemptName): string => `${fence} ${task}`;

/** Gathers the words of one tick into one message: waking the other thread costs far more than a word. */
export class Mail<W> {
  readonly #post: (words: readonly W[]) => void;
  readonly #soon: (call: () => void) => void;
  #waiting: W[] = [];
  #isAsked = false;
  #hasHurried = false;

  constructor(post: (words: readonly W[]) => void, soon: (call: () => void) => void) {
    this.#post = post;
    this.#soon = soon;
  }

  push(word: W): void {
    this.#waiting.push(word);
    this.#ask();
  }

  /** The first of a tick leaves at once, with all that waits: whoever says it may be about to block. More of them gather. */
  pushUrgent(word: W): void {
    this.push(word);
    if (this.#hasHurried) return;
    this.#hasHurried = true;
    this.flush();
  }

  flush(): void {
    const words = this.#waiting;
    if (words.length === 0) return;
    this.#waiting = [];
    this.#post(words);
  }

  #ask(): void {
    if (this.#isAsked) return;
    this.#isAsked = true;
    this.#soon(() => {
      this.#isAsked = false;
      this.#hasHurried = false;
      this.flush();
    });
  }
}
