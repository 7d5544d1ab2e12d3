// A run as it was after a position of its tenant's log: folded from its facts, shown in the same words as a run of now. What a node gave and
// was given stands in its row and never changes once it has ended, so that is shown for what had ended by then, and for nothing else.

import {
  type EventPage,
  type RunDetail,
  type RunRow,
  readTaskState,
  runKey,
  type StoreReader,
  type TaskRow,
} from "@astraflow/engine";
import { type Fault, fault, LruMap, RunFold, type RunSnapshot, type TaskSnapshot } from "@astraflow/protocol";
import { notFound } from "../documents/documents.ts";
import { createSemaphore } from "../environment/concurrency.ts";

export const historyLimits = {
  factsPage: 1_000,
  /** Facts that are folded for one answer. */
  factsMax: 300_000,
  /** Runs whose last moment is kept at hand, unless it is large: pages of one moment, and later moments, go on from there. */
  cachedMax: 4,
  cachedTasksMax: 25_000,
  /** Characters that the tasks of a moment have said, and of one that is kept at hand. */
  charsMax: 32 * 1024 * 1024,
  cachedCharsMax: 4 * 1024 * 1024,
  /** Moments that are folded at a time; others wait. */
  concurrentMax: 4,
  /** Rows read at once. */
  rowsPage: 50,
} as const;

export interface HistoricalRun {
  readonly at: number;
  /** The run as its row was; the definition never changes. */
  readonly run: RunRow;
  readonly workflow: string;
  readonly fold: RunSnapshot;
  /** Ids of the tasks there were, in the order of rows. */
  readonly ids: readonly string[];
}

interface FoldedRun {
  readonly at: number;
  readonly fold: RunSnapshot;
  readonly chars: number;
}

export class RunHistory {
  readonly #reader: StoreReader;
  readonly #limits: { readonly factsMax: number; readonly charsMax: number };
  readonly #cache = new LruMap<string, FoldedRun>({ entriesMax: historyLimits.cachedMax, touchOnGet: false });
  readonly #runLimited = createSemaphore(historyLimits.concurrentMax);

  constructor(reader: StoreReader, limits: { readonly factsMax: number; readonly charsMax: number } = historyLimits) {
    this.#reader = reader;
    this.#limits = limits;
  }

  /** Throws the fault to answer where there was no such run, or nobody knows any more. */
  async readRunAt(tenant: string, run: string, at: number): Promise<HistoricalRun> {
    const { detail, head } = await this.#reader.page({ page: "run", tenant, run, tasksMax: 0 });
    if (detail === null) throw notFound("run", run);
    if (at > head)
      throw fault("E.CURSOR.UNKNOWN", `query.at is beyond the end of the log, which is at ${head}`, { path: "query.at", head });
    const key = `${tenant}/${run}`;
    // Looked for once it is this one's turn: the one before may have been about the same moment.
    const { fold } = await this.#runLimited(async () => {
      const before = this.#cache.get(key);
      const start = before !== undefined && before.at <= at ? before : null;
      const folded = start?.at === at ? start : await this.#foldRunTo(tenant, run, at, start);
      this.#cache.delete(key);
      const isLarge = folded.fold.tasks.size > historyLimits.cachedTasksMax || folded.chars > historyLimits.cachedCharsMax;
      if (!isLarge) this.#cache.set(key, folded);
      return folded;
    });
    return { at, run: runRowAt(detail, fold), workflow: detail.workflow, fold, ids: [...fold.tasks.keys()].sort() };
  }

  /** These tasks as their rows were. */
  async readTaskRows({ run, fold }: HistoricalRun, ids: readonly string[]): Promise<TaskRow[]> {
    const rows: TaskRow[] = [];
    for (let from = 0; from < ids.length; from += historyLimits.rowsPage) {
      const part = ids.slice(from, from + historyLimits.rowsPage).flatMap((id) => fold.tasks.get(id) ?? []);
      rows.push(...(await Promise.all(part.map((task) => readTaskRowAt(this.#reader, run, task)))));
    }
    return rows;
  }

  /** Reads on where `before` ended; the facts of a run are read as one subject, so others cost nothing. */
  async #foldRunTo(tenant: string, run: string, at: number, before: FoldedRun | null): Promise<FoldedRun> {
    const { factsMax, charsMax } = this.#limits;
    const folding = new RunFold(before?.fold ?? null);
    let isCreated = before !== null;
    let after = before?.at ?? 0;
    for (let facts = 0; facts < factsMax; ) {
      const query = { tenant, after, subject: runKey(run), limit: historyLimits.factsPage };
      let page = await this.#reader.events(query);
      // Facts below the floor are gone; this run's may all lie above it, unless some were read already.
      if (at < page.floor || (isCreated && after < page.floor)) throw historyExpiredFault(run, at, page);
      if (after < page.floor) page = await this.#reader.events({ ...query, after: page.floor });
      // The run has a row, so it was created: where that is not told, it was told below the floor.
      if (!isCreated && page.items[0]?.type !== "run.created") throw historyExpiredFault(run, at, page);
      const known = page.items.filter(({ position }) => position <= at);
      folding.add(known);
      if (folding.textChars > charsMax) throw tooLargeFault(run, at, { charsMax });
      isCreated ||= known.length > 0;
      facts += known.length;
      if (known.length < page.items.length || page.items.length < historyLimits.factsPage) {
        if (isCreated) return { at, fold: folding.finish(), chars: folding.textChars };
        throw fault("E.NOT_FOUND", `run ${run} did not exist at ${at}; it was created later`, { run, at });
      }
      after = page.next;
    }
    throw tooLargeFault(run, at, { factsMax });
  }
}

function tooLargeFault(run: string, at: number, limit: { readonly charsMax: number } | { readonly factsMax: number }): Fault {
  const bound = "charsMax" in limit ? `${limit.charsMax} characters` : `${limit.factsMax} facts`;
  const why = `the history of run ${run} up to ${at} is too large to rebuild (limit ${bound})`;
  return fault("E.REQUEST.TOO_LARGE", `${why}; read its events, or an earlier position`, { run, at, ...limit });
}

const historyExpiredFault = (run: string, at: number, { floor, head }: Pick<EventPage, "floor" | "head">): Fault =>
  fault("E.CURSOR.EXPIRED", `the history of run ${run} up to ${at} has been deleted; read its current state`, { floor, head });

/** Of columns that only the engine needs, it has the present ones. */
function runRowAt({ run }: Pick<RunDetail, "run">, fold: RunSnapshot): RunRow {
  return {
    ...run,
    phase: fold.isEnding ? "ending" : (fold.status ?? "queued"),
    open: fold.open,
    startedAt: fold.startedAt,
    endedAt: fold.endedAt,
    error: fold.error === null ? null : JSON.stringify(fold.error),
  } as RunRow;
}

/** A row that has ended never changes in what is shown here; of any other only the fold knows what it was. */
async function readTaskRowAt(reader: StoreReader, { id: run, tenant }: RunRow, moment: TaskSnapshot): Promise<TaskRow> {
  if (moment.endedAt === null && moment.grantedAt === null) return liveTaskRow(run, moment, null);
  const { task } = await reader.page({ page: "task", tenant, task: moment.id });
  return moment.endedAt !== null && task !== null ? endedTaskRow(task, moment) : liveTaskRow(run, moment, task);
}

/** The same row, with the facts' word on what the facts tell. */
function endedTaskRow(row: TaskRow, moment: TaskSnapshot): TaskRow {
  return { ...row, phase: moment.phase, endedAt: moment.endedAt, error: errorJson(moment) } as TaskRow;
}

const errorJson = ({ error }: TaskSnapshot): string | null => (error === null ? null : JSON.stringify(error));

/** What a row must have and nobody is shown. */
const unshownColumns = {
  kind: "task",
  route: "",
  pin: null,
  line: null,
  band: 0,
  rank: null,
  needs: 0,
  deliveries: 0,
  failures: 0,
  boot: null,
  epoch: 0,
  key: null,
  due: null,
} as const;

function liveTaskRow(run: string, moment: TaskSnapshot, row: TaskRow | null): TaskRow {
  const { feedback, iteration: frame } = moment;
  const artifacts = moment.artifacts.length === 0 || row === null ? undefined : readTaskState(row).artifacts;
  const state = {
    ...(feedback !== null && { said: feedback }),
    ...(frame !== null && { frame: { index: frame, tries: 0 } }),
    artifacts,
    ...(moment.warnings.length > 0 && { warnings: moment.warnings }),
  };
  const hasState = feedback !== null || frame !== null || artifacts !== undefined || moment.warnings.length > 0;
  return {
    ...unshownColumns,
    id: moment.id,
    run,
    phase: moment.phase,
    fence: moment.fence,
    attempt: moment.attempt,
    worker: moment.worker,
    acked: moment.isAcked,
    readyAt: moment.readyAt,
    grantedAt: moment.grantedAt,
    endedAt: moment.endedAt,
    params: moment.grantedAt === null ? null : (row?.params ?? null),
    result: null,
    error: errorJson(moment),
    state: hasState ? JSON.stringify(state) : null,
  } as TaskRow;
}
