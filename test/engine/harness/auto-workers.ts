// A worker that answers every dispatch as the test decides until none is left; its middlewares call the next layer and return its answer.
// Also the assertions about a finished run.
import type { Command, RunRow, SendDispatch, SendNextAnswer, TaskRow } from "@astraflow/engine";
import { expect } from "vitest";
import { type EngineHarness, RefusedError, type TestWorker } from "./engine-harness.ts";
import { nextCommand } from "./middleware-chains.ts";

export type Dispatch = SendDispatch["dispatch"];
/** `silent`: it never answers. */
export type AutoReply = { readonly done: unknown } | { readonly fail: string } | "cancelled" | "silent";

/** Lets time pass until there is an answer: a commit that failed is tried again after a pause. */
export async function waitWhileTimePasses<T>(harness: EngineHarness, answer: Promise<T>): Promise<T> {
  let isThere = false;
  const seen = () => {
    isThere = true;
  };
  answer.then(seen, seen);
  await Promise.race([Promise.allSettled([answer]), harness.settle()]);
  for (let look = 0; !isThere && look < 1_000; look++) await harness.advance(1);
  return await answer;
}

export class AutoWorkers {
  readonly harness: EngineHarness;
  readonly workers: TestWorker[];
  readonly reply: (dispatch: Dispatch, params: Record<string, unknown>) => AutoReply | Promise<AutoReply>;
  /** What was sent to it, in order. */
  readonly dispatchesSeen: Dispatch[] = [];
  #effectsRead = 0;

  constructor(harness: EngineHarness, workers: TestWorker[], reply: AutoWorkers["reply"] = () => ({ done: {} })) {
    this.harness = harness;
    this.workers = workers;
    this.reply = reply;
  }

  /** How often each node was sent. */
  get dispatchCounts(): Record<string, number> {
    const counts: Record<string, number> = {};
    for (const { node } of this.dispatchesSeen) counts[node] = (counts[node] ?? 0) + 1;
    return counts;
  }

  /** Answers until nothing comes any more. `most`: stops after so many answers. */
  async answerAll(most = Number.POSITIVE_INFINITY): Promise<number> {
    let answers = 0;
    for (;;) {
      await this.harness.settle();
      const commands = await this.#readNewCommands(most - answers);
      if (commands.length === 0) return answers;
      answers += commands.length;
      const answer = this.harness.askAll(commands).map((one) =>
        one.catch((problem: unknown) => {
          // What was cancelled meanwhile is nobody's any more.
          if (!(problem instanceof RefusedError) || problem.code !== "E.SESSION.STALE_BINDING") throw problem;
        }),
      );
      await waitWhileTimePasses(this.harness, Promise.all(answer));
      if (answers >= most) return answers;
    }
  }

  async #readNewCommands(most: number): Promise<Command[]> {
    const commands: Command[] = [];
    const { effects } = this.harness;
    for (; this.#effectsRead < effects.length && commands.length < most; this.#effectsRead++) {
      const effect = effects[this.#effectsRead];
      if (effect?.type !== "dispatch" && effect?.type !== "next") continue;
      const crew = this.workers.find((one) => one.session === effect.session);
      if (crew === undefined) continue;
      if (effect.type === "next") {
        commands.push(resultOfNext(crew, effect));
        continue;
      }
      if (effect.dispatch.chainIndex !== undefined) {
        commands.push(nextCommand(crew, effect.dispatch, effect.dispatch.id));
        continue;
      }
      this.dispatchesSeen.push(effect.dispatch);
      const reply = await this.reply(effect.dispatch, JSON.parse(effect.dispatch.params));
      const command = commandForReply(crew, effect.dispatch, reply);
      if (command !== null) commands.push(command);
    }
    return commands;
  }
}

/** A middleware hands on what it was answered. Its request bears the name of its dispatch, so its fence can be read there. */
function resultOfNext(crew: TestWorker, { task, request, error, result, node }: SendNextAnswer): Command {
  const dispatch = { task, fence: Number(request.slice(request.lastIndexOf("#") + 1)) };
  if (error === null) return crew.resultCommand(dispatch, JSON.parse(result ?? "{}"));
  const { tenant, worker, session } = crew;
  const code = "E.RUNNER.FAILURE";
  return { type: "task.error", tenant, worker, session, ...dispatch, code, message: `${node} heard ${error.code}` };
}

function commandForReply(crew: TestWorker, dispatch: Dispatch, reply: AutoReply): Command | null {
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
export async function checkRun(harness: EngineHarness, run: string): Promise<{ run: RunRow; tasks: readonly TaskRow[] }> {
  const detail = await harness.runDetail(run);
  const open = detail.tasks.filter(isOpen);
  expect(detail.run.open, `open rows: ${open.map((task) => `${task.id} ${task.phase}`).join(", ")}`).toBe(open.length);
  if (["succeeded", "failed", "cancelled"].includes(detail.run.phase)) {
    expect(open).toEqual([]);
    expect(detail.run).toMatchObject({ due: null });
    for (const task of detail.tasks) expect(task).toMatchObject({ due: null, line: null });
  }
  expect(harness.problems).toEqual([]);
  return detail;
}

/** Which node of its run a row, or a report on it, is about. */
export const slotOf = (one: { run: string; id?: string; task?: string }): string =>
  (one.id ?? one.task ?? "").slice(one.run.length + 1);

export const tasksBySlot = (tasks: readonly TaskRow[]): Record<string, TaskRow> =>
  Object.fromEntries(tasks.map((task) => [slotOf(task), task]));

export const resultOf = (task: TaskRow | undefined): unknown =>
  task?.result === null || task === undefined ? null : JSON.parse(task.result);
