// What a worker says about an attempt it was granted: ack, result, error; feedback.ts and next.ts hear the others. A word counts only under the current fence and from
// the session of the incarnation it was granted to; any other is answered and the stale attempt is told to stop.

import { type Fault, fault } from "@astraflow/protocol";
import type { AckTasks, ErrorTask, FeedbackTask, NextTask, ResultTask } from "../../command.ts";
import type { AnswerBody } from "../../effect.ts";
import { type RunRow, runOf, type TaskRow } from "../../rows.ts";
import { isQuiet } from "../../thresholds.ts";
import type { Board } from "../board/board.ts";
import type { FloorMove, Seat } from "../crew/floor.ts";
import { seatLeft } from "../crew/seat.ts";
import { cancelledByWorker, completeTask, failAttempt, takeBack } from "../flow/end.ts";
import { unfitResult, withOutcome } from "../flow/outcome.ts";
import { recordArtifacts } from "../place/artifacts.ts";
import { dropHold, dropStaleHold } from "../place/holds.ts";
import { stateOf, withState } from "../rows/state.ts";
import { isEnded } from "../rows/task.ts";
import type { Tools } from "../tools.ts";

type Word = ErrorTask | FeedbackTask | NextTask | ResultTask;

const applied: AnswerBody = { of: "word", applied: true };
const repeated: AnswerBody = { of: "word", applied: false };

/** One answer for "never was", "another tenant's", "another worker's" and "no longer yours": it tells a stranger nothing. */
function stale(board: Board, word: Word, seat: Seat | null): Fault {
  if (seat !== null && word.fence !== null)
    board.effect({
      type: "stop",
      session: seat.session,
      worker: seat.worker,
      tenant: seat.tenant,
      run: runOf(word.task),
      task: word.task,
      fence: word.fence,
      code: "E.SESSION.STALE_BINDING",
      reason: "this attempt is no longer yours",
    });
  board.count("stale_words_total", { type: word.type });
  return fault(
    "E.SESSION.STALE_BINDING",
    `task ${word.task} is not held by this session under fence ${word.fence ?? "none"}; stop that attempt`,
    {
      task: word.task,
      fence: word.fence,
    },
  );
}

/**
 * Acks stay in memory: what they tell is only who need not be asked again. Long attempts have theirs stored later. One that names
 * nothing held here is late, not wrong: a result may overtake the ack that was merged behind it.
 */
export function hearAcks(board: Board, tools: Tools, word: AckTasks): AnswerBody {
  const seat = tools.floor.seatOf(word.worker, word.session);
  if (seat === null) return repeated;
  for (const { task, fence } of word.held)
    if (seat.held.get(task)?.fence === fence) board.move({ move: "ack", worker: seat.worker, task, fence, stored: false });
  return applied;
}

export interface Standing {
  readonly run: RunRow;
  readonly task: TaskRow;
  readonly seat: Seat;
}

/**
 * A worker of an older dialect may be running an attempt that was taken back, when the task is granted to the same process again: it refuses
 * the newer dispatch as still running there, and its outcome names the older one. That outcome is the newer attempt's: there will be
 * no other, and the task would stay leased for as long as the worker beats. Such a worker cannot be told to stop.
 */
function speaksForNewer(board: Board, seat: Seat, task: TaskRow, fence: number): boolean {
  if (!isQuiet(seat.about.dialect) || fence >= task.fence) return false;
  if (isEnded(task)) return true;
  const hold = seat.held.get(task.id);
  // Kept over a join and not asked about yet: what it said before the join is forgotten, and it will say it again.
  if (hold?.fence !== task.fence) return false;
  return hold.isRunningOlder || hold.recheckFrom !== null || board.moves.some((move) => isStillRunning(move, task));
}

/** Said in this very turn, before the outcome: the floor does not know yet. */
const isStillRunning = (move: FloorMove, { id, fence }: TaskRow): boolean =>
  move.move === "ack" && move.isRunningOlder === true && move.task === id && move.fence === fence;

/** The attempt a word is about, if it is the sender's and current. */
export function standing(board: Board, tools: Tools, word: Word): Standing | Fault | "ended" {
  // Who has left asks for nothing more.
  const seat =
    tools.floor.seatOf(word.worker, word.session) ??
    (word.type === "task.next" ? null : seatLeft(board, word.worker, word.session));
  if (seat === null) return stale(board, word, null);
  const run = board.run(runOf(word.task));
  const task = run === null || run.tenant !== word.tenant ? null : board.task(word.task);
  // An outcome that ended its task may come again from the worker's next process, which found it in its outbox.
  const isMine =
    run !== null &&
    task !== null &&
    task.worker === word.worker &&
    (task.boot === seat.boot || (isEnded(task) && task.fence === word.fence));
  if (!isMine || (word.fence !== null && task.fence !== word.fence && !speaksForNewer(board, seat, task, word.fence))) {
    if (word.fence !== null) dropStaleHold(board, seat, word.task, word.fence);
    if (run !== null && task !== null) tellRefused(board, run, task, word, "E.SESSION.STALE_BINDING");
    return stale(board, word, seat);
  }
  if (isEnded(task)) {
    dropStaleHold(board, seat, task.id, task.fence);
    return "ended";
  }
  // The same process on a newer session, perhaps of another scheduler: nothing the older one says is processed.
  if (task.epoch !== seat.epoch) return stale(board, word, seat);
  if (task.phase === "leased" && run.phase === "ending" && word.type === "task.feedback") {
    // Its attempt is as good as over, and it is told to stop; what it said until then is kept, or what it prints would have a gap.
    stale(board, word, seat);
    return { run, task, seat };
  }
  if (task.phase !== "leased" || run.phase === "ending") return stale(board, word, seat);
  return { run, task, seat };
}

/** Refusals of one task that the log tells; a worker that says the same for ever must not fill it. */
const refusalsMax = 20;

/** An outcome that came too late is told in the log, beside the one that counts; what else is stale is only counted. */
function tellRefused(board: Board, run: RunRow, task: TaskRow, word: Word, code: string): void {
  const isOutcome = word.type === "task.result" || word.type === "task.error";
  // A fence that was never given says nothing about this task.
  if (!isOutcome || word.fence === null || word.fence <= 0 || word.fence > task.fence) return;
  const { refused = 0 } = stateOf(task);
  if (refused >= refusalsMax) return;
  board.put(withState(task, { refused: refused + 1 }));
  board.tell(run, "task.refused", { task: task.id, fence: word.fence, holds: task.fence, worker: word.worker, code });
}

const phaseOfStatus = { succeeded: "succeeded", failed: "failed", cancelled: "cancelled", skipped: "skipped" } as const;

export function hearResult(board: Board, tools: Tools, word: ResultTask): AnswerBody | Fault {
  const found = standing(board, tools, word);
  if (found === "ended") return repeatOf(board, word);
  if (!("task" in found)) return found;
  const { run } = found;
  const task = withOutcome(found.task, word, board.now);
  const hold = found.seat.held.get(task.id);
  if (hold !== undefined) board.latencies.observe(run.tenant, hold.nodeType, board.now - (task.grantedAt ?? board.now));
  switch (word.status) {
    case "succeeded": {
      const unfit = unfitResult(tools.plans.nodeOf(board, run, task), word.result);
      if (unfit === null) {
        recordArtifacts(board, tools, run, task, word.artifacts ?? []);
        completeTask(board, tools, run, task, "succeed", word.result, timed(word));
      } else {
        dropHold(board, tools, task, null);
        failAttempt(board, tools, run, task, unfit, null);
      }
      return applied;
    }
    case "skipped":
      recordArtifacts(board, tools, run, task, word.artifacts ?? []);
      completeTask(board, tools, run, task, "skip", word.result, timed(word));
      return applied;
    case "failed": {
      const error = word.error ?? { code: "E.RUNNER.FAILURE", message: `task ${task.id} failed; its result says why` };
      dropHold(board, tools, task, null);
      failAttempt(board, tools, run, task, error, word.result);
      return applied;
    }
    case "cancelled":
      cancelledByWorker(board, tools, run, task);
      return applied;
  }
}

const timed = ({ durationMs }: ResultTask): object => (durationMs === null ? {} : { durationMs });

/** First result counts. The same again is acknowledged; another under the same fence is refused, and said. */
function repeatOf(board: Board, word: ResultTask): AnswerBody | Fault {
  const task = board.task(word.task) as TaskRow;
  if (task.phase === phaseOfStatus[word.status] && (task.result ?? "{}") === word.result) return repeated;
  if (task.phase === "cancelled" && task.result === null) return repeated;
  board.count("duplicate_results_total", {});
  tellRefused(board, board.run(task.run) as RunRow, task, word, "E.RESULT.DUPLICATE");
  return fault(
    "E.RESULT.DUPLICATE",
    `task ${task.id} already ended as ${task.phase} under this fence; the first result is kept`,
    {
      task: task.id,
      fence: task.fence,
      phase: task.phase,
    },
  );
}

export function hearError(board: Board, tools: Tools, word: ErrorTask): AnswerBody | Fault {
  const found = standing(board, tools, word);
  if (found === "ended") return repeated;
  if (!("task" in found)) return found;
  const { run, task } = found;
  const error = { code: word.code, message: word.message, ...(word.details === undefined ? {} : { details: word.details }) };
  switch (word.code) {
    case "E.CMD.CONCURRENCY_VIOLATION":
      // "Still running there": the binding stays as it is.
      board.move({
        move: "ack",
        worker: word.worker,
        task: task.id,
        fence: task.fence,
        stored: false,
        isRunningOlder: true,
      });
      return applied;
    case "E.RUNNER.CANCELLED":
      // The worker hands it back: no verdict on the task. One that is leaving may do so any number of times; any other is counted,
      // so that two sides that disagree about slots do not play the task back and forth for ever.
      takeBack(
        board,
        tools,
        run,
        found.seat.draining || !found.seat.healthy ? { ...task, deliveries: Math.max(0, task.deliveries - 1) } : task,
        {
          unacked: false,
          code: word.code,
          message: word.message,
        },
      );
      return applied;
    default:
      dropHold(board, tools, task, null);
      failAttempt(board, tools, run, task, error, null);
      return applied;
  }
}
