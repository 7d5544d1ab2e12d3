// How runs and tasks come to their end: a result walks on to the successors, a failure retries or condemns the run, a condemned run is
// swept task by task. Everything that follows from one end (counters, successors, keys, facts) is on the same board, so it is one commit.

import { type Outcome, type Plan, type PlanNode, paramsOf } from "@astraflow/graph";
import type { FaultData } from "../effect.ts";
import type { RunRow, TaskId, TaskRow } from "../rows.ts";
import type { Board } from "./board.ts";
import type { Seat } from "./floor.ts";
import { enterLine, keyName, ordinalOf, queueDue, releaseKey, requeue } from "./line.ts";
import { needAddresses, postStop, type Why } from "./post.ts";
import { fits, type Misfit } from "./route.ts";
import { moveRun } from "./run.ts";
import { moveTask } from "./task.ts";
import type { Tools } from "./tools.ts";

const errorText = (error: FaultData): string =>
  JSON.stringify(error.details === undefined ? { code: error.code, message: error.message } : error);

/** A node is reached: its task row is born, ready or parked. */
export function spawnTask(board: Board, tools: Tools, run: RunRow, node: PlanNode, params: string): void {
  enterLine(board, tools, run, node, bornTask(board, tools, run, node, 0), params, true);
}

function bornTask(board: Board, tools: Tools, run: RunRow, node: PlanNode, needs: number): TaskRow {
  return {
    kind: "task",
    id: `${run.id}.${node.ordinal}`,
    run: run.id,
    phase: "waiting",
    route: tools.plans.route(board, tools.floor, run, node),
    pin: null,
    line: null,
    band: node.policy.priority ?? run.band,
    rank: null,
    needs,
    fence: 0,
    attempt: 0,
    deliveries: 0,
    failures: 0,
    worker: null,
    boot: null,
    epoch: 0,
    acked: false,
    key: keyName(run, node),
    due: null,
    readyAt: null,
    grantedAt: null,
    endedAt: null,
    params: null,
    result: null,
    error: null,
  };
}

/** The task's holder has no more say: its slot is free, its session is told when it does not know. */
export function dropHold(board: Board, tools: Tools, task: TaskRow, stop: Why | null): void {
  if (task.worker === null) return;
  const seat = tools.floor.seats.get(task.worker);
  if (seat === undefined || seat.held.get(task.id)?.fence !== task.fence) {
    if (stop !== null) postStop(board, tools, task, stop);
    return;
  }
  board.move({ move: "drop", worker: seat.worker, task: task.id, fence: task.fence });
  if (stop !== null)
    board.effect({
      type: "stop",
      session: seat.session,
      worker: seat.worker,
      tenant: seat.tenant,
      run: task.run,
      task: task.id,
      fence: task.fence,
      ...stop,
    });
}

/** A hold of this floor that the row no longer bears out: another scheduler has ended or taken back the attempt. The slot is free. */
export function dropStaleHold(board: Board, seat: Seat, task: TaskId, fence: number): void {
  if (seat.held.get(task)?.fence !== fence) return;
  if (board.moves.some((move) => move.move === "drop" && move.task === task && move.fence === fence)) return;
  board.move({ move: "drop", worker: seat.worker, task, fence });
}

/** A task ended well (or was skipped): the run walks on. */
export function completeTask(
  board: Board,
  tools: Tools,
  run: RunRow,
  task: TaskRow,
  how: "succeed" | "skip",
  result: string,
  extra: object,
): void {
  const ended = moveTask(task, { type: how, result }, board.now);
  board.put(ended);
  board.tell(run, how === "succeed" ? "task.succeeded" : "task.skipped", {
    task: task.id,
    fence: task.fence,
    worker: task.worker,
    ...extra,
  });
  dropHold(board, tools, task, null);
  releaseKey(board, tools, task);
  const plan = tools.plans.of(board, run);
  let opened = -1;
  for (const ordinal of plan.nodes[ordinalOf(task)]?.after ?? [])
    opened += reachNode(board, tools, run, plan, plan.nodes[ordinal] as PlanNode, ended);
  const left = run.open + opened;
  if (left === 0) {
    board.put(moveRun(run, { type: "succeed" }, board.now));
    board.tell(run, "run.succeeded", {});
  } else if (opened !== 0) board.put(moveRun(run, { type: "open", tasks: opened }, board.now));
}

/** One predecessor of a node has ended. Returns how many task rows this opened. */
function reachNode(board: Board, tools: Tools, run: RunRow, plan: Plan, node: PlanNode, from: TaskRow): number {
  if (node.before.length === 1) {
    spawnTask(
      board,
      tools,
      run,
      node,
      paramsText(node, () => new TaskOutcome(from)),
    );
    return 1;
  }
  const id = `${run.id}.${node.ordinal}`;
  const join = board.task(id);
  if (join === null) {
    board.bear(bornTask(board, tools, run, node, node.before.length - 1));
    return 1;
  }
  if (join.needs > 1) {
    board.put(moveTask(join, { type: "arrive" }, board.now));
    return 0;
  }
  const outcome = (ordinal: number) => {
    const source = board.task(`${run.id}.${plan.nodes[ordinal]?.ordinal}`);
    return source === null ? null : new TaskOutcome(source);
  };
  enterLine(board, tools, run, node, moveTask(join, { type: "arrive" }, board.now), paramsText(node, outcome));
  return 0;
}

const paramsText = (node: PlanNode, outcome: (ordinal: number) => Outcome | null): string =>
  JSON.stringify(paramsOf(node, outcome));

/** Bodies are kept as text and only read where an edge carries a value out of them. */
class TaskOutcome implements Outcome {
  readonly #task: TaskRow;
  constructor(task: TaskRow) {
    this.#task = task;
  }
  get params(): unknown {
    return this.#task.params === null ? {} : (JSON.parse(this.#task.params) as unknown);
  }
  get results(): unknown {
    return this.#task.result === null ? {} : (JSON.parse(this.#task.result) as unknown);
  }
}

/** An attempt failed by the worker's word or by time: try again as the node's policy says, or fail the run. */
export function failAttempt(
  board: Board,
  tools: Tools,
  run: RunRow,
  task: TaskRow,
  error: FaultData,
  result: string | null,
): void {
  const node = tools.plans.node(board, run, ordinalOf(task));
  const policy = { ...tools.settings.retry, ...node.policy.retry };
  if (task.failures + 1 >= policy.maxAttempts) {
    failTask(board, tools, run, task, error, result);
    return;
  }
  const backoff = Math.min(policy.backoffMsMax, policy.backoffMs * policy.factor ** task.failures);
  const delay = Math.round(backoff * (0.8 + 0.4 * tools.roll()));
  retryTask(board, tools, run, node, task, delay);
  board.tell(run, "task.retrying", { task: task.id, fence: task.fence, delayMs: delay, error });
}

function retryTask(board: Board, tools: Tools, run: RunRow, node: PlanNode, task: TaskRow, delay: number): void {
  if (delay > 0) {
    releaseKey(board, tools, task);
    board.put(moveTask(task, { type: "retry", line: null, due: board.now + delay, key: keyName(run, node) }, board.now));
    return;
  }
  // Without a pause the key is kept: the task goes straight back into its line.
  const due = queueDue(tools, node, board.now);
  board.put(moveTask(task, { type: "retry", line: tools.floor.lineOf(task.route, task.pin), due, key: task.key }, board.now));
  board.fresh.push(task.id);
}

/** A task fails for good, and its run with it. */
export function failTask(board: Board, tools: Tools, run: RunRow, task: TaskRow, error: FaultData, result: string | null): void {
  board.put(moveTask(task, { type: "fail", error: errorText(error), result }, board.now));
  board.tell(run, "task.failed", { task: task.id, fence: task.fence, worker: task.worker, error });
  releaseKey(board, tools, task);
  condemnRun(board, tools, moveRun(run, { type: "open", tasks: -1 }, board.now), "failed", {
    ...error,
    details: { ...error.details, task: task.id, node: tools.plans.node(board, run, ordinalOf(task)).id },
  });
}

/** The run will end as `verdict`; its open tasks are cancelled now, or by the cursor when they are many. */
export function condemnRun(
  board: Board,
  tools: Tools,
  run: RunRow,
  verdict: "failed" | "cancelled",
  error: FaultData | null,
): void {
  const ending = moveRun(run, { type: "condemn", verdict, error: error === null ? null : errorText(error) }, board.now);
  if (ending.open === 0) closeRun(board, ending);
  else sweepRun(board, tools, ending);
}

export function sweepRun(board: Board, tools: Tools, run: RunRow): void {
  const limit = tools.settings.sweepTasksMax;
  const { tasks: open, last } = board.openTasks(run.id, run.cursor ?? "", limit);
  const why = {
    code: "E.RUNNER.CANCELLED",
    message: `run ${run.id} is ${run.verdict === "cancelled" ? "cancelled" : "failing"}`,
  };
  needAddresses(board, tools, open);
  // Written first: releasing a key below may ready a task of this very run, and must find it condemned.
  board.put(run);
  for (const seen of open) {
    const task = board.task(seen.id) as TaskRow;
    board.put(moveTask(task, { type: "cancel", error: errorText(why) }, board.now));
    board.tell(run, "task.cancelled", { task: task.id, fence: task.fence, worker: task.worker });
    if (task.phase === "leased") dropHold(board, tools, task, { code: why.code, reason: why.message });
    releaseKey(board, tools, task);
  }
  if (last === null) closeRun(board, run);
  else board.put(moveRun(run, { type: "sweep", cursor: last, ended: open.length }, board.now));
}

function closeRun(board: Board, run: RunRow): void {
  const closed = moveRun(run, { type: "close" }, board.now);
  board.put(closed);
  board.tell(run, `run.${closed.phase}`, closed.error === null ? {} : { error: JSON.parse(closed.error) as unknown });
}

/** Why an attempt was taken back; `unacked` grants brought no word at all. */
export interface Loss {
  readonly unacked: boolean;
  readonly code: string;
  readonly message: string;
}

/** A grant that brought no verdict: back into line under a new fence, or, after too many in a row, failed with the reasons. */
export function takeBack(board: Board, tools: Tools, run: RunRow, task: TaskRow, loss: Loss): void {
  const node = tools.plans.node(board, run, ordinalOf(task));
  const most = node.policy.maxDeliveries ?? tools.settings.maxDeliveries;
  dropHold(board, tools, task, { code: "E.SESSION.STALE_BINDING", reason: loss.message });
  if (task.deliveries >= most) {
    const code = loss.unacked ? "E.DISPATCH.UNAVAILABLE" : "E.WORKER.LOST";
    const message = `task ${task.id} was granted ${task.deliveries} times in a row without an answer; last: ${loss.message}`;
    failTask(board, tools, run, task, { code, message, details: { deliveries: task.deliveries, last: loss.code } }, null);
    return;
  }
  const back = requeue(board, tools, node, task);
  board.tell(run, "task.requeued", {
    task: task.id,
    fence: back.fence,
    from: task.worker,
    code: loss.code,
    reason: loss.message,
  });
  board.count("cmd_retry_total", { reason: loss.code });
}

/** What each worker of the tenant lacks for a route, for the answer to "why did nobody take it". */
export function reasonsFor(
  tools: Tools,
  task: TaskRow,
): {
  worker: string;
  code: Misfit["code"] | "busy" | "draining" | "strained" | "unhealthy" | "fits";
  has?: string;
  needs?: string;
}[] {
  const needs = tools.floor.routes.get(task.route);
  if (needs === undefined) return [];
  const seats = [...tools.floor.seats.values()].filter((seat) => seat.tenant === needs.tenant).slice(0, 20);
  return seats.map((seat) => {
    const misfit = fits(needs, seat);
    if (misfit !== null) return { worker: seat.name, ...misfit };
    if (seat.draining) return { worker: seat.name, code: "draining" };
    if (seat.strain !== null) return { worker: seat.name, code: "strained" };
    if (!seat.healthy) return { worker: seat.name, code: "unhealthy" };
    return { worker: seat.name, code: seat.held.size >= seat.about.slots ? "busy" : "fits" };
  });
}
