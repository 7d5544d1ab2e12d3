// A worker that answers everything it is sent, as a test says, until nothing comes any more; its middlewares call the next and hand on what
// they are answered. And what must be true of a run when it is over.
import type { Command, RunRow, SendDispatch, SendNextAnswer, TaskRow } from "@astraflow/engine";
import { expect } from "vitest";
import { nextCommand } from "./chains-stage.ts";
import { type Crew, type Harness, Refused } from "./harness.ts";

export type Dispatch = SendDispatch["dispatch"];
/** `silent`: it never answers. */
export type Reply = { readonly done: unknown } | { readonly fail: string } | "cancelled" | "silent";

/** Lets time pass until there is an answer: a commit that failed is tried again after a pause. */
export async function patiently<T>(world: Harness, answer: Promise<T>): Promise<T> {
  let isThere = false;
  const seen = () => {
    isThere = true;
  };
  answer.then(seen, seen);
  await Promise.race([Promise.allSettled([answer]), world.settle()]);
  for (let look = 0; !isThere && look < 1_000; look++) await world.advance(1);
  return await answer;
}

export class Robot {
  readonly world: Harness;
  readonly crews: Crew[];
  readonly reply: (dispatch: Dispatch, params: Record<string, unknown>) => Reply | Promise<Reply>;
  /** What was sent to it, in order. */
  readonly seen: Dispatch[] = [];
  #looked = 0;

  constructor(world: Harness, crews: Crew[], reply: Robot["reply"] = () => ({ done: {} })) {
    this.world = world;
    this.crews = crews;
    this.reply = reply;
  }

  /** How often each node was sent. */
  get counts(): Record<string, number> {
    const counts: Record<string, number> = {};
    for (const { node } of this.seen) counts[node] = (counts[node] ?? 0) + 1;
    return counts;
  }

  /** Answers until nothing comes any more. `most`: stops after so many answers. */
  async work(most = Number.POSITIVE_INFINITY): Promise<number> {
    let answers = 0;
    for (;;) {
      await this.world.settle();
      const commands = await this.#news(most - answers);
      if (commands.length === 0) return answers;
      answers += commands.length;
      const said = this.world.askAll(commands).map((one) =>
        one.catch((problem: unknown) => {
          // What was cancelled meanwhile is nobody's any more.
          if (!(problem instanceof Refused) || problem.code !== "E.SESSION.STALE_BINDING") throw problem;
        }),
      );
      await patiently(this.world, Promise.all(said));
      if (answers >= most) return answers;
    }
  }

  async #news(most: number): Promise<Command[]> {
    const commands: Command[] = [];
    const { effects } = this.world;
    for (; this.#looked < effects.length && commands.length < most; this.#looked++) {
      const effect = effects[this.#looked];
      if (effect?.type !== "dispatch" && effect?.type !== "next") continue;
      const crew = this.crews.find((one) => one.session === effect.session);
      if (crew === undefined) continue;
      if (effect.type === "next") {
        commands.push(answered(crew, effect));
        continue;
      }
      if (effect.dispatch.chainIndex !== undefined) {
        commands.push(nextCommand(crew, effect.dispatch, effect.dispatch.id));
        continue;
      }
      this.seen.push(effect.dispatch);
      const reply = await this.reply(effect.dispatch, JSON.parse(effect.dispatch.params));
      const command = commandOf(crew, effect.dispatch, reply);
      if (command !== null) commands.push(command);
    }
    return commands;
  }
}

/** A middleware hands on what it was answered. Its request bears the name of its dispatch, so its fence can be read there. */
function answered(crew: Crew, { task, request, error, result, node }: SendNextAnswer): Command {
  const dispatch = { task, fence: Number(request.slice(request.lastIndexOf("#") + 1)) };
  if (error === null) return crew.resultCommand(dispatch, JSON.parse(result ?? "{}"));
  const { tenant, worker, session } = crew;
  const code = "E.RUNNER.FAILURE";
  return { type: "task.error", tenant, worker, session, ...dispatch, code, message: `${node} heard ${error.code}` };
}

function commandOf(crew: Crew, dispatch: Dispatch, reply: Reply): Command | null {
  if (reply === "silent") return null;
  if (reply === "cancelled") return crew.resultCommand(dispatch, {}, "cancelled");
  if ("done" in reply) return crew.resultCommand(dispatch, reply.done);
  const { tenant, worker, session } = crew;
  return {
    type: "task.error",
    tenant,
    worker,
    session,
    task: dispatch.task,
    fence: dispatch.fence,
    code: reply.fail,
    message: `${dispatch.node} broke`,
  };
}

const isOpen = ({ phase }: TaskRow): boolean => ["waiting", "parked", "ready", "leased", "hosting"].includes(phase);

/** Whatever happened: the run's count is that of its open rows, and a run that is over has none. */
export async function checkRun(world: Harness, run: string): Promise<{ run: RunRow; tasks: readonly TaskRow[] }> {
  const detail = await world.detail(run);
  const open = detail.tasks.filter(isOpen);
  expect(detail.run.open, `open rows: ${open.map((task) => `${task.id} ${task.phase}`).join(", ")}`).toBe(open.length);
  if (["succeeded", "failed", "cancelled"].includes(detail.run.phase)) {
    expect(open).toEqual([]);
    expect(detail.run).toMatchObject({ due: null });
    for (const task of detail.tasks) expect(task).toMatchObject({ due: null, line: null });
  }
  expect(world.problems).toEqual([]);
  return detail;
}

/** Which node of its run a row, or a word about it, is about. */
export const slot = (one: { run: string; id?: string; task?: string }): string =>
  (one.id ?? one.task ?? "").slice(one.run.length + 1);

export const bySlot = (tasks: readonly TaskRow[]): Record<string, TaskRow> =>
  Object.fromEntries(tasks.map((task) => [slot(task), task]));

export const resultOf = (task: TaskRow | undefined): unknown =>
  task?.result === null || task === undefined ? null : JSON.parse(task.result);
