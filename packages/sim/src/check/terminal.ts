// I6: what has ended never changes again. Every look at an ended run or node, on any scheduler, shows the same as the first.

import type { Bench, Checker } from "./checker.ts";

const ended = new Set(["succeeded", "failed", "cancelled", "skipped"]);

interface Face {
  readonly runId: string;
  readonly status: string;
  readonly nodes?: readonly { readonly taskId: string; readonly status: string }[];
}

export function terminal({ fail }: Bench): Checker {
  /** As first seen, and the observation at which it was. */
  const first = new Map<string, { readonly image: string; readonly n: number }>();
  let saw = 0;

  const look = (id: string, status: string, image: string, asked: number, n: number): void => {
    const before = first.get(id);
    if (before !== undefined && before.n < asked) {
      saw++;
      if (before.image !== image) return fail(`${id} had ended and changed: ${before.image} became ${image}`, [id]);
    }
    if (before === undefined && ended.has(status)) first.set(id, { image, n });
  };

  return {
    get saw() {
      return saw;
    },
    exchange({ call, answer }) {
      if (answer.status !== 200) return;
      const runs =
        call.route === "getRun"
          ? [answer.body as Face]
          : call.route === "listRuns"
            ? (answer.body as { items: readonly Face[] }).items
            : [];
      for (const run of runs) {
        // Lists show runs without their nodes, details name the position they are true at: neither belongs to the run itself.
        const { nodes = [], asOf: _, ...rest } = run as Face & { asOf?: number };
        look(run.runId, run.status, JSON.stringify(rest), call.n, answer.n);
        // Without its worker's name: a worker may come back under another.
        for (const { workerName: _name, ...node } of nodes as readonly ((typeof nodes)[number] & { workerName?: string })[])
          look(node.taskId, node.status, JSON.stringify(node), call.n, answer.n);
      }
    },
  };
}
