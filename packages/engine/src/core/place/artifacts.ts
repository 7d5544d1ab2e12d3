// What workers keep under a name after a result: one document each, known by its resource id, with the worker that has it and the time it
// lives. Tasks that refer to one go to that worker (pins.ts); its end of time is in docs.ts.

import type { ArtifactWord } from "../../command.ts";
import {
  type DocRow,
  docId,
  docKey,
  type Millis,
  type RunId,
  type RunRow,
  type TaskId,
  type TaskRow,
  type WorkerId,
} from "../../rows.ts";
import type { Board } from "../board/board.ts";
import type { Tools } from "../tools.ts";

/** Body of an artifact's document. */
export interface ArtifactBody {
  readonly run: RunId;
  readonly task: TaskId;
  readonly node: string;
  readonly worker: WorkerId;
  readonly workerName: string;
  readonly type: string;
  readonly sizeBytes?: number;
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** How long it lives after its last use. */
  readonly ttlMs: number;
  /** Its worker keeps it no longer, and why. The document stays for a while, so that whoever refers to it hears the reason. */
  readonly removed?: string;
}

export const artifactTtlMs = 3_600_000;
/** What one result may leave behind; the door counts too. */
const artifactsMax = 1_000;

export const readArtifact = (doc: DocRow): ArtifactBody => JSON.parse(doc.body) as ArtifactBody;

/** The run that left it. */
export const artifactRun = (doc: DocRow): RunId => readArtifact(doc).run;

/** The document of a resource; one whose time is over counts as gone, although nobody has removed it yet. */
export function artifactOf(board: Board, tenant: string, resource: string): DocRow | null {
  const doc = board.doc(docId(tenant, "artifact", resource));
  return doc === null || (doc.due !== null && doc.due <= board.now) ? null : doc;
}

/** A result says what stays with its worker. What came inline is in the result itself and pins nobody, so nothing is kept of it. */
export function recordArtifacts(board: Board, tools: Tools, run: RunRow, task: TaskRow, words: readonly ArtifactWord[]): void {
  const { worker } = task;
  if (worker === null || words.length === 0) return;
  const kept = words.slice(0, artifactsMax);
  board.need(kept.filter((one) => one.inline !== true).map((one) => docKey(run.tenant, "artifact", one.resource)));
  const node = tools.plans.nodeOf(board, run, task);
  const name = tools.floor.seats.get(worker)?.name ?? worker.slice(run.tenant.length + 1);
  for (const word of kept) {
    const due =
      word.inline === true ? null : keepArtifact(board, run, word, { task: task.id, node: node.id, worker, workerName: name });
    board.tell(run, "task.artifact", {
      task: task.id,
      resource: word.resource,
      type: word.type,
      worker,
      ...(word.sizeBytes === undefined ? {} : { sizeBytes: word.sizeBytes }),
      ...(word.inline === undefined ? {} : { inline: word.inline }),
      ...(due === null ? {} : { expiresAt: due }),
    });
  }
}

type Keeper = Pick<ArtifactBody, "task" | "node" | "worker" | "workerName">;

/** Of two that name one resource the later is right: it is the worker's own word about what it has. */
function keepArtifact(board: Board, run: RunRow, word: ArtifactWord, keeper: Keeper): Millis {
  const id = docId(run.tenant, "artifact", word.resource);
  const due = word.expiresAt ?? board.now + artifactTtlMs;
  const body: ArtifactBody = {
    run: run.id,
    ...keeper,
    type: word.type,
    ...(word.sizeBytes === undefined ? {} : { sizeBytes: word.sizeBytes }),
    ...(word.metadata === undefined ? {} : { metadata: word.metadata }),
    ttlMs: Math.max(1, due - board.now),
  };
  board.put({
    kind: "doc",
    id,
    tenant: run.tenant,
    collection: "artifact",
    rev: (board.doc(id)?.rev ?? 0) + 1,
    at: board.now,
    due,
    sort: keeper.task,
    terms: `${word.type} ${keeper.workerName}`.toLowerCase(),
    body: JSON.stringify(body),
  });
  return due;
}

/** Used: it lives on for its time. One that has more than half of it left is not written again. */
export function touchArtifact(board: Board, doc: DocRow): Millis | null {
  const { ttlMs } = readArtifact(doc);
  const due = board.now + ttlMs;
  if (doc.due === null || doc.due >= due - ttlMs / 2) return doc.due;
  board.put({ ...doc, rev: doc.rev + 1, due });
  return due;
}
