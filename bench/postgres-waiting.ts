// Tasks that wait and whose time has passed, put into a store through its port: so that the plans of claims and deadlines are those of
// finding something. Nobody ever runs them.

import type { Key, RunRow, Store, TaskRow, Unit } from "@astraflow/engine";

export const waitingLine = "r|nobody";

/** A hundred runs whose only task waits in a line and is overdue, so that claims and deadlines find something. */
export async function leaveWaiting(store: Store): Promise<void> {
  const ids = Array.from({ length: 100 }, (_, n) => `ffffffff-ffff-7000-8000-${String(n).padStart(12, "0")}`);
  const tx = await store.begin({ rows: ids.map((id): Key => `run/${id}`), claims: [], lists: [], due: 0, mail: 0, skip: [] });
  const units = ids.map((id): Unit => {
    const run: RunRow = { ...waitingRun, id };
    const task: TaskRow = { ...waitingTask, id: `${id}.0`, run: id };
    const ready = [{ task: task.id, tenant: run.tenant, cost: 1 }];
    return {
      roots: [`run/${id}`],
      puts: [run, task],
      born: new Set<Key>([`run/${id}`, `task/${id}.0`]),
      drops: [],
      ready,
      happenings: [],
      mail: [],
    };
  });
  const outcome = await tx.commit(1_000_000_000, units);
  if (outcome.outcome !== "committed") throw new Error(`the waiting tasks were not stored: ${outcome.outcome}`);
}

const waitingRun: Omit<RunRow, "id"> = {
  kind: "run",
  tenant: "bench",
  phase: "running",
  workflow: "bench/none",
  client: "bench",
  band: 5,
  open: 1,
  verdict: null,
  cursor: null,
  createdAt: 1,
  startedAt: 1,
  endedAt: null,
  due: 1,
  error: null,
  label: "",
  source: "",
  about: "{}",
  marks: null,
  bindings: null,
};

const waitingTask: Omit<TaskRow, "id" | "run"> = {
  kind: "task",
  phase: "ready",
  route: "nobody",
  pin: null,
  line: waitingLine,
  band: 5,
  rank: null,
  needs: 0,
  fence: 0,
  attempt: 0,
  deliveries: 0,
  failures: 0,
  worker: null,
  boot: null,
  epoch: 0,
  acked: false,
  key: null,
  due: 1,
  readyAt: 1,
  grantedAt: null,
  endedAt: null,
  params: null,
  result: null,
  error: null,
  state: null,
};
