// Calls of the API as a caller far away makes them: requests and answers take time and may be lost; a scheduler that dies answers never.

import type { RouteName } from "@astraflow/protocol";
import type { Dice } from "./dice.ts";
import { FaultLevel } from "./fault-level.ts";
import type { SchedulerProcess } from "./scheduler-process.ts";
import type { Timeline } from "./timeline.ts";
import type { Trace } from "./trace.ts";

export interface ApiCall {
  readonly caller: string;
  readonly scheduler: string;
  readonly tenant: string;
  readonly route: RouteName | "tailLog" | "readChunks" | "readMoment";
  readonly params?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string>>;
  readonly idempotencyKey?: string | null;
  readonly body?: string | null;
}

export interface ApiAnswer {
  /** Zero: none came. */
  readonly status: number;
  readonly body: unknown;
}

/** A caller waits so long, then takes the answer for lost. */
const patienceMs = 3_000;

export class Api {
  readonly #timeline: Timeline;
  readonly #trace: Trace;
  readonly #dice: Dice;
  readonly #find: (scheduler: string) => SchedulerProcess | null;
  #requestLost = 0;
  #answerLost = 0;
  readonly requestLost = new FaultLevel((share) => void (this.#requestLost = share));
  readonly answerLost = new FaultLevel((share) => void (this.#answerLost = share));
  #calls = 0;
  #open = 0;

  constructor(timeline: Timeline, trace: Trace, dice: Dice, find: (scheduler: string) => SchedulerProcess | null) {
    this.#timeline = timeline;
    this.#trace = trace;
    this.#dice = dice;
    this.#find = find;
  }

  /** Calls whose caller still waits. */
  get open(): number {
    return this.#open;
  }

  call(asked: ApiCall): Promise<ApiAnswer> {
    const call = ++this.#calls;
    const { caller, scheduler, tenant, route } = asked;
    const { params = {}, query = {}, idempotencyKey = null, body = null } = asked;
    this.#trace.see({ kind: "call", call, caller, scheduler, tenant, route, params, query, idempotencyKey, body });
    this.#open++;
    return new Promise((resolve) => {
      let isOver = false;
      const hear = (answer: ApiAnswer): void => {
        if (isOver) return;
        isOver = true;
        stopWaiting();
        this.#open--;
        this.#trace.see({ kind: "answer", call, caller, scheduler, tenant, route, ...answer });
        resolve(answer);
      };
      const stopWaiting = this.#timeline.after(patienceMs, () => hear(noAnswer));
      if (this.#loses(this.#requestLost, caller)) return;
      this.#travel(() => {
        const process = this.#find(scheduler);
        if (process === null) return this.#travel(() => hear(noAnswer));
        process.life.hear(() => void this.#serve(process, asked).then((answer) => this.#sendBack(process, answer, caller, hear)));
      });
    });
  }

  async #serve(process: SchedulerProcess, asked: ApiCall): Promise<ApiAnswer> {
    const { route, tenant, params = {}, query = {}, idempotencyKey = null, body = null } = asked;
    if (route === "tailLog")
      return { status: 200, body: await process.tail(tenant, Number(query["after"]), Number(query["limit"])) };
    if (route === "readChunks")
      return { status: 200, body: await process.chunks(tenant, params["task"] ?? "", Number(params["fence"])) };
    const name = route === "readMoment" ? "getRun" : route;
    const answer = await process.call({ route: name, tenant, params, query, idempotencyKey, body });
    return { status: answer.status, body: JSON.parse(answer.body) as unknown };
  }

  #sendBack(process: SchedulerProcess, answer: ApiAnswer, caller: string, hear: (answer: ApiAnswer) => void): void {
    // A dead process has said nothing: what its last microtasks make up never leaves it.
    if (process.life.isOver || this.#loses(this.#answerLost, caller)) return;
    this.#travel(() => hear(answer));
  }

  /** Who follows the log does so for the judges: they should learn of a fact when it happens, not when an answer gets through. */
  #loses(share: number, caller: string): boolean {
    return this.#dice.chance(share) && caller !== "tail";
  }

  #travel(arrive: () => void): void {
    this.#timeline.after(this.#dice.scale(0.2, 8), arrive);
  }
}

const noAnswer: ApiAnswer = { status: 0, body: null };
