// Feeds one world's observations to all checkers: keeps the shared picture (scene, log, lives), turns observations into what checkers hear, and
// keeps the first violation of each.

import type { AnswerSeen, CallSeen, Observation, TailPage, TrueTime } from "../observation.ts";
import type { Bench, Checker, Violation } from "./checker.ts";
import { Lives } from "./lives.ts";
import { type Fact, LogBook } from "./log-book.ts";
import { Plans } from "./plans.ts";
import { Scene } from "./scene.ts";
import { type CheckerName, checkers } from "./table.ts";
import { FrameReader } from "./wire.ts";

/** How often checkers are asked what should have happened by now, in true time. */
const passMs = 500;

interface Post {
  readonly name: CheckerName;
  readonly checker: Checker;
  isDone: boolean;
}

export interface Verdict {
  readonly violations: readonly Violation[];
  /** How many things each checker could judge. */
  readonly saw: Readonly<Record<string, number>>;
}

export class Judge {
  readonly #scene = new Scene();
  readonly #plans = new Plans();
  readonly #lives = new Lives(this.#plans);
  readonly #book = new LogBook();
  readonly #frames = new FrameReader();
  readonly #calls = new Map<number, CallSeen & { readonly at: TrueTime; readonly n: number }>();
  readonly #turns = new Map<string, Fact[]>();
  readonly #posts: Post[] = [];
  readonly #violations: Violation[] = [];
  #passedAt: TrueTime = 0;
  #now: { readonly at: TrueTime; readonly n: number } = { at: 0, n: 0 };

  constructor(names: readonly CheckerName[] = Object.keys(checkers) as CheckerName[]) {
    for (const name of names) {
      const post: Post = {
        name,
        isDone: false,
        checker: checkers[name].make(this.#bench(name), { plans: this.#plans, book: this.#book }),
      };
      this.#posts.push(post);
    }
  }

  #bench(name: CheckerName): Bench {
    return {
      lives: this.#lives,
      scene: this.#scene,
      fail: (message, about) => {
        const post = this.#posts.find((one) => one.name === name);
        if (post?.isDone === true) return;
        if (post !== undefined) post.isDone = true;
        this.#violations.push({ checker: name, message, about, ...this.#now });
      },
    };
  }

  get violations(): readonly Violation[] {
    return this.#violations;
  }

  hear(seen: Observation): void {
    this.#now = { at: seen.at, n: seen.n };
    this.#scene.see(seen);
    this.#each((checker) => checker.observe?.(seen));
    if (seen.kind === "frame") {
      const frame = this.#frames.read(seen);
      this.#each((checker) => checker.frame?.(frame));
    } else if (seen.kind === "call") {
      this.#calls.set(seen.call, seen);
      this.#plans.hear(seen);
    } else if (seen.kind === "answer") this.#answer(seen);
    if (seen.at - this.#passedAt < passMs) return;
    this.#passedAt = seen.at;
    this.#each((checker) => checker.passes?.(seen.at));
  }

  /** Nothing follows. */
  end(): Verdict {
    for (const tenant of this.#turns.keys()) this.#endTurn(tenant);
    this.#each((checker) => checker.passes?.(this.#now.at));
    this.#each((checker) => checker.end?.());
    const saw = Object.fromEntries(this.#posts.map(({ name, checker }) => [name, checker.saw]));
    return { violations: this.#violations, saw };
  }

  #answer(answer: AnswerSeen & { readonly at: TrueTime; readonly n: number }): void {
    const call = this.#calls.get(answer.call);
    if (call === undefined) return;
    this.#calls.delete(answer.call);
    this.#each((checker) => checker.exchange?.({ call, answer }));
    if (call.route !== "tailLog" || answer.status !== 200) return;
    const page = answer.body as TailPage;
    for (const fact of this.#book.add(call.tenant, page, answer.at)) this.#tell(fact);
    if (page.next < page.head || this.#book.knownTo(call.tenant) < page.head) return;
    this.#endTurn(call.tenant);
    this.#lives.knownAt.set(call.tenant, Math.max(call.at, this.#lives.knownAt.get(call.tenant) ?? 0));
    this.#each((checker) => checker.known?.({ tenant: call.tenant, since: call.n }));
  }

  #tell(fact: Fact): void {
    const turn = this.#turns.get(fact.tenant) ?? [];
    this.#turns.set(fact.tenant, turn);
    if (turn.length > 0 && turn[0]?.at !== fact.at) this.#endTurn(fact.tenant);
    turn.push(fact);
    this.#each((checker) => checker.fact?.(fact));
    this.#lives.noteGrant(fact);
    this.#lives.apply(fact);
  }

  #endTurn(tenant: string): void {
    const turn = this.#turns.get(tenant) ?? [];
    if (turn.length === 0) return;
    this.#each((checker) => checker.turn?.(tenant, turn));
    turn.length = 0;
  }

  #each(tell: (checker: Checker) => void): void {
    for (const post of this.#posts) if (!post.isDone) tell(post.checker);
  }
}
