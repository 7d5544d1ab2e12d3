// Artifacts of runs with more tasks than one page holds.
import type { PageQuery, StoreReader, TaskRow } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { createFakeEnvironment } from "../testing/fake-environment.ts";
import { runRow, sampleChain, taskRow } from "../testing/sample-rows.ts";
import { readArtifacts } from "./run-artifacts.ts";
import { RunReader } from "./run-reader.ts";

const fan = {
  ...sampleChain,
  nodes: Array.from({ length: 1_202 }, (_, n) => ({
    ...sampleChain.nodes[0],
    id: `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`,
  })),
  edges: [],
};
const detail = { run: runRow("r1"), workflow: JSON.stringify(fan) };
const left = (...resources: string[]) =>
  JSON.stringify({ artifacts: resources.map((resource) => ({ resource, type: "file", worker: "default/w-1" })) });

/** Nobody has kept a document of these. */
const fateless = () => null;

/** A run of 1,202 tasks in id order, of which three left something. */
function openRun() {
  const leaving: Record<number, string> = { 0: left("a"), 1_100: left("b", "c"), 1_201: left("d") };
  const tasks = Array.from({ length: 1_202 }, (_, n) =>
    taskRow(`r1.${n}`, { phase: "succeeded", ...(leaving[n] !== undefined && { state: leaving[n] }) }),
  ).sort((a, b) => (a.id < b.id ? -1 : 1));
  const page = async (query: PageQuery): Promise<unknown> => {
    if (query.page === "run") return { detail: { ...detail, tasks: tasks.slice(0, query.tasksMax) }, head: 7 };
    if (query.page === "workers") return { items: [], head: 7 };
    if (query.page === "doc") return { items: query.names.map(fateless), head: 7 };
    if (query.page !== "tasks") throw new Error(`page ${query.page} is not part of this scene`);
    const { after = "", limit } = query;
    const rest = tasks.filter(({ id }) => id > after);
    const items = rest.slice(0, limit);
    return { items, next: rest.length > limit ? (items.at(-1)?.id ?? null) : null, head: 7 };
  };
  return { reader: { page } as unknown as StoreReader, tasks };
}

const contextOf = async (_: readonly TaskRow[]) => ({ workers: new Map([["default/w-1", "painter"]]), ackDeadlineMs: 5_000 });

describe("artifacts of a run", () => {
  it("[A247] the artifacts of a run are found over all of its tasks, page by page, those of one task together", async () => {
    const { reader } = openRun();
    const found: string[][] = [];
    let after: string | undefined;
    do {
      const { items, next } = await readArtifacts(reader, detail, contextOf, { after, limit: 1, isAll: true });
      found.push(items.map(({ resourceId }) => resourceId));
      after = next ?? undefined;
    } while (after !== undefined);

    expect(found.filter((page) => page.length > 0)).toEqual([["a"], ["b", "c"], ["d"]]);
    const whole = await readArtifacts(reader, detail, contextOf, { limit: 10, isAll: true });
    expect(whole).toMatchObject({ items: [{ resourceId: "a", workerName: "painter" }, {}, {}, {}], next: null });
  });

  it("[A247] the detail of a run contains all its artifacts, also those of nodes that it does not show", async () => {
    const { reader } = openRun();
    const runReader = new RunReader({ reader, environment: createFakeEnvironment() }, 5_000);
    const { artifacts = [], nodes, asOf } = await runReader.read("default", "r1");

    expect(nodes).toHaveLength(1_000);
    expect(artifacts.map(({ resourceId }) => resourceId)).toEqual(["a", "b", "c", "d"]);
    expect(asOf).toBe(7);
  });
});
