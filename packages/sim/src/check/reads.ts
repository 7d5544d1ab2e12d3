// I42, reads and the log: what a run's page shows is what the log tells up to the position the page is true at: the run's state, and of each node
// its state, fence, attempt and holder. Lists agree with it.

import type { Bench, Checker } from "./checker.ts";
import { Lives, type RunLife } from "./lives.ts";
import type { LogBook } from "./log-book.ts";
import type { Plans } from "./plans.ts";

interface Face {
  readonly runId: string;
  readonly status: string;
  readonly nodes?: readonly {
    readonly taskId: string;
    readonly status: string;
    readonly fence?: number;
    readonly attempt?: number;
    readonly dispatchId?: string;
  }[];
}

interface Look {
  readonly tenant: string;
  readonly asOf: number;
  readonly where: string;
  readonly runs: readonly Face[];
}

export function reads({ fail, lives }: Bench, book: LogBook, plans: Plans): Checker {
  let looks: Look[] = [];
  let saw = 0;

  /** The run as the log tells it up to a position. */
  const foldTo = (id: string, asOf: number): RunLife | undefined => {
    const past = new Lives(plans);
    for (const fact of lives.run(id)?.facts ?? []) if (fact.position <= asOf) past.apply(fact);
    return past.run(id);
  };

  const judgeRun = ({ asOf, where }: Look, face: Face): void => {
    const told = foldTo(face.runId, asOf);
    const as = `${where}, true at ${asOf}`;
    saw++;
    if (told === undefined) return fail(`run ${face.runId} is shown ${as}, and the log does not know it`, [face.runId]);
    const isOpen = face.status === "queued" || face.status === "running";
    if (isOpen ? told.end !== null : told.end !== face.status)
      return fail(`run ${face.runId} is ${face.status} ${as}; the log says ${told.end ?? "open"}`, [face.runId]);
    if (face.status === "queued" && told.isStarted)
      return fail(`run ${face.runId} is queued ${as}; the log says started`, [face.runId]);
    for (const node of face.nodes ?? []) {
      const problem = nodeProblem(told, node);
      if (problem !== null) return fail(`${node.taskId} ${problem} ${as}`, [node.taskId]);
    }
  };

  return {
    get saw() {
      return saw;
    },
    exchange({ call, answer }) {
      if (answer.status !== 200 || (call.route !== "getRun" && call.route !== "listRuns")) return;
      const body = answer.body as { asOf: number };
      const runs = call.route === "getRun" ? [answer.body as Face] : (answer.body as { items: readonly Face[] }).items;
      looks.push({ tenant: call.tenant, asOf: body.asOf, where: `by ${call.route} on ${call.scheduler}`, runs });
    },
    known({ tenant }) {
      const later: Look[] = [];
      for (const look of looks)
        if (look.tenant !== tenant || look.asOf > book.knownTo(tenant)) later.push(look);
        else for (const face of look.runs) judgeRun(look, face);
      looks = later;
    },
  };
}

function nodeProblem(run: RunLife, node: NonNullable<Face["nodes"]>[number]): string | null {
  const task = run.tasks.get(node.taskId);
  const isUp = task !== undefined && (task.worker !== null || task.isHosting);
  const says = task === undefined ? "nothing of it" : (task.end ?? (isUp ? "running" : "queued"));
  const unborn = run.end === null ? "queued" : run.end === "succeeded" ? "skipped" : "cancelled";
  const expected = task === undefined ? unborn : says;
  if (node.status !== expected) return `is ${node.status}; the log says ${says}`;
  if (task === undefined || task.fence === 0) return null;
  if (node.fence !== task.fence) return `is under fence ${node.fence}; the log says ${task.fence}`;
  if (node.attempt !== task.attempt) return `is at attempt ${node.attempt}; the log says ${task.attempt}`;
  return null;
}
