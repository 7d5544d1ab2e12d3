// A worker says that it no longer keeps something: its document says so from now on, the task and the run that left it are told, and what
// waits for it fails at once. What was never reported, or is another's by now, changes nothing.

import type { Fault } from "@astraflow/protocol";
import type { RemoveResource } from "../../command.ts";
import type { AnswerBody } from "../../effect.ts";
import { docId, keyOf, type TaskId, type WorkerRow } from "../../rows.ts";
import type { Board } from "../board/board.ts";
import { unknownSession } from "../crew/beat.ts";
import { seatSpeaking } from "../crew/seat.ts";
import { stateOf, withState } from "../rows/state.ts";
import type { Tools } from "../tools.ts";
import { type ArtifactBody, artifactTtlMs, readArtifact } from "./artifacts.ts";
import { lookAtRef } from "./pins.ts";
import { lineOf } from "./route.ts";

/** Tasks looked at for one resource; those further back in line are looked at in their turn, as every pinned task is. */
const waitingMax = 100;

export function removeResource(board: Board, tools: Tools, word: RemoveResource): AnswerBody | Fault {
  const row = seatSpeaking(board, tools, word) === null ? null : board.worker(word.worker);
  if (row === null) return unknownSession(word.worker);
  const { resource, reason } = word;
  const doc = board.doc(docId(word.tenant, "artifact", resource));
  const body = doc === null ? null : readArtifact(doc);
  const isMeant = word.seenAt === undefined || doc?.at === word.seenAt;
  if (doc === null || body === null || body.worker !== word.worker || body.removed !== undefined || !isMeant)
    return { of: "word", applied: false };
  board.put({ ...doc, rev: doc.rev + 1, due: board.now + artifactTtlMs, body: JSON.stringify({ ...body, removed: reason }) });
  const run = board.run(body.run);
  const said = { task: body.task, resource, reason, worker: word.worker };
  if (run !== null && run.tenant === word.tenant) {
    markTask(board, body, resource, reason);
    board.tell(run, "artifact.removed", said);
  } else board.say(word.tenant, keyOf(doc), "artifact.removed", said);
  for (const id of pinnedTo(board, tools, row, waitingMax)) lookAtRef(board, tools, id, resource);
  return { of: "word", applied: true };
}

/** Whoever reads the run sees what it left and that it is gone. */
function markTask(board: Board, { task: id }: ArtifactBody, resource: string, removed: string): void {
  const task = board.task(id);
  const artifacts = task === null ? undefined : stateOf(task).artifacts;
  if (task === null || artifacts === undefined) return;
  board.put(withState(task, { artifacts: artifacts.map((one) => (one.resource === resource ? { ...one, removed } : one)) }));
}

/** Tasks that stand in line for this worker and no other. */
export function pinnedTo(board: Board, tools: Tools, worker: WorkerRow, limit: number): TaskId[] {
  const lines: string[] = [];
  for (const [route, needs] of tools.floor.routes) if (needs.tenant === worker.tenant) lines.push(lineOf(route, worker.id));
  return board.waitingIn(lines, limit);
}
