// Reads outside a turn, over the committed state. They never see a turn that is still under way.

import type {
  CrewCount,
  Depth,
  EventPage,
  EventQuery,
  PageOf,
  PageQuery,
  Row,
  RunDetail,
  RunPhase,
  RunRow,
  WorkerPhase,
} from "@astraflow/engine";
import { byCrew } from "../crew.ts";
import { pageOfLog } from "../log.ts";
import { hasEnded } from "../unit-check.ts";
import { compareText } from "./sorted-list.ts";
import type { Tables } from "./tables.ts";

export function readEvents(tables: Tables, query: EventQuery): EventPage {
  const tenant = tables.tenant(query.tenant);
  const rows = query.subject === undefined ? tenant.log : [...tenant.log].filter((row) => row.subject === query.subject);
  return pageOfLog(rows, query, tenant.position, tenant.floor);
}

export function readPage<Q extends PageQuery>(tables: Tables, query: Q): PageOf<Q> {
  return answer(tables, query) as PageOf<Q>;
}

function answer(tables: Tables, query: PageQuery): PageOf<PageQuery> {
  switch (query.page) {
    case "runs": {
      const fits = rowsOf(tables, "run")
        .filter((run) => run.tenant === query.tenant && (query.before === undefined || run.id < query.before))
        .filter((run) => query.phase === undefined || run.phase === query.phase)
        .filter((run) => query.client === undefined || run.client === query.client)
        .sort((a, b) => compareText(b.id, a.id));
      const items = fits.slice(0, query.limit);
      const next = fits.length > items.length ? (items.at(-1)?.id ?? null) : null;
      return { items, next, head: tables.tenant(query.tenant).position };
    }
    case "run": {
      const run = tables.rows.get(`run/${query.run}`);
      const detail = run?.kind === "run" && run.tenant === query.tenant ? detailOf(tables, run) : null;
      return { detail, head: tables.tenant(query.tenant).position };
    }
    case "workers": {
      const items = rowsOf(tables, "worker")
        .filter((worker) => worker.tenant === query.tenant)
        .sort((a, b) => compareText(a.id, b.id));
      return { items, head: tables.tenant(query.tenant).position };
    }
    case "routes":
      return { items: rowsOf(tables, "route").sort((a, b) => compareText(a.id, b.id)) };
    case "worker": {
      const worker = tables.rows.get(`worker/${query.worker}`);
      const { position: head } = tables.tenant(query.tenant);
      if (worker?.kind !== "worker" || worker.tenant !== query.tenant) return { worker: null, held: [], head };
      return { worker, held: [...tables.held(worker.id)].slice(0, query.limit), head };
    }
    case "crew":
      return { items: crewOf(tables) };
    case "depth":
      return { items: depthOf(tables, query) };
  }
}

function detailOf(tables: Tables, run: RunRow): RunDetail {
  const workflow = tables.rows.get(`workflow/${run.workflow}`);
  return { run, tasks: [...tables.tasksOf(run.id, "")], workflow: workflow?.kind === "workflow" ? workflow.body : "" };
}

function crewOf(tables: Tables): CrewCount[] {
  const counts = new Map<string, { tenant: string; phase: WorkerPhase; draining: boolean; workers: number }>();
  for (const { tenant, phase, draining } of rowsOf(tables, "worker")) {
    const name = `${tenant}\n${phase}\n${draining}`;
    const count = counts.get(name) ?? { tenant, phase, draining, workers: 0 };
    count.workers++;
    counts.set(name, count);
  }
  return [...counts.values()].sort(byCrew);
}

const liveFirst: readonly string[] = ["queued", "running", "ending"] satisfies RunPhase[];

/** Tasks that have not ended, counted by tenant and phase; what has ended would make this cost grow with history. */
function depthOf(tables: Tables, { tenant, max }: Extract<PageQuery, { page: "depth" }>): Depth[] {
  const depths = new Map<string, { tenant: string; phase: Depth["phase"]; tasks: number }>();
  const counted = new Map<string, number>();
  const live = rowsOf(tables, "run").filter((run) => !hasEnded(run) && (tenant === undefined || run.tenant === tenant));
  live.sort((a, b) => liveFirst.indexOf(a.phase) - liveFirst.indexOf(b.phase) || compareText(a.id, b.id));
  for (const run of live)
    for (const task of tables.tasksOf(run.id, "")) {
      const before = counted.get(run.tenant) ?? 0;
      if (hasEnded(task) || before === max) continue;
      counted.set(run.tenant, before + 1);
      const name = `${run.tenant}\n${task.phase}`;
      const depth = depths.get(name) ?? { tenant: run.tenant, phase: task.phase, tasks: 0 };
      depth.tasks++;
      depths.set(name, depth);
    }
  return [...depths.values()].sort((a, b) => compareText(a.tenant, b.tenant) || compareText(a.phase, b.phase));
}

function rowsOf<K extends Row["kind"]>(tables: Tables, kind: K): Extract<Row, { kind: K }>[] {
  const found: Extract<Row, { kind: K }>[] = [];
  for (const row of tables.rows.values()) if (row.kind === kind) found.push(row as Extract<Row, { kind: K }>);
  return found;
}
