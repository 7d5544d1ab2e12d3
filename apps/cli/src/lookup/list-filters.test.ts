import { describe, expect, it } from "vitest";
import { saveView } from "../history/view-commands.ts";
import { runBulkChange } from "../runs/change-commands.ts";
import { listRuns } from "../runs/inspect-commands.ts";
import { createCommandFixture, sampleRun as run } from "../testing/command-fixture.ts";

const other = "01a1dfbd-5bc1-7000-bf5a-00000000abcd";
describe("filters", () => {
  it("[L29] a list filter is translated into the API's query parameters, with relative times made absolute", async () => {
    const fixture = createCommandFixture(
      {
        listRuns: { items: [], nextCursor: null },
        listWorkflows: { items: [{ id: other, metadata: { name: "Smoke test" } }], nextCursor: null },
      },
      { now: () => Date.parse("2026-01-31T12:00:00Z") },
    );

    await listRuns(fixture.context, { limit: 9, filter: 'status:failed,queued workflow:"smoke test" since:1h timed out' });

    expect(fixture.calls.at(-1)).toEqual([
      "listRuns",
      { limit: 9, status: "failed,queued", workflowId: other, since: "2026-01-31T11:00:00.000Z", q: "timed out" },
    ]);
    expect(fixture.stderr()).toContain("No run matches the filter");
  });

  it("[L29] [A377] a filter by worker is evaluated by the API, page after page, in lists and in bulk changes", async () => {
    const fixture = createCommandFixture(
      {
        // A page may come short.
        listRuns: ({ worker, cursor }: { worker?: string; cursor?: string }) =>
          worker === "w-2" && cursor === undefined
            ? { items: [], nextCursor: "c", asOf: 4 }
            : { items: worker === "w-2" ? [run(other)] : [], nextCursor: null, asOf: 4 },
        changeRuns: {
          bulkId: "b",
          action: "cancel",
          status: "done",
          matched: 1,
          changed: 1,
          unchanged: 0,
          refused: 0,
          refusals: [],
        },
      },
      { output: "id" },
    );

    await listRuns(fixture.context, { limit: 9, filter: "worker:w-2" });
    await runBulkChange(fixture.context, { action: "cancel", filter: "status:running worker:w-2", yes: true });

    expect(fixture.stdout()).toMatch(new RegExp(`^${other}\\n1 changed`));
    expect(fixture.calls.at(-1)).toEqual([
      "changeRuns",
      { body: { action: "cancel", filter: { status: ["running"], runIds: [other] } } },
    ]);
    await expect(runBulkChange(fixture.context, { action: "cancel", filter: "worker:w-9", yes: true })).rejects.toThrow(
      /No run of worker w-9 matches/,
    );
  });

  it("[L30] a saved view is a named filter whose terms --filter can override, and saving it again replaces it", async () => {
    const view = {
      viewId: "v",
      name: "late ones",
      page: "runs",
      query: { status: "failed", text: "a b" },
      shared: true,
      ownerId: "me",
      revision: 3,
    };
    const fixture = createCommandFixture({
      listViews: { items: [view, { ...view, viewId: "x", ownerId: "you" }], nextCursor: null, asOf: 1 },
      listRuns: { items: [], nextCursor: null },
      getOwnUser: { userId: "me" },
      replaceView: { ...view, revision: 4 },
    });

    await listRuns(fixture.context, { limit: 9, view: "v", filter: "status:cancelled" });
    await saveView(fixture.context, { name: "late ones", filter: "status:failed", page: "runs" });

    expect(fixture.calls.find(([name]) => name === "listRuns")?.[1]).toMatchObject({ status: "cancelled", q: "a b" });
    expect(fixture.calls.at(-1)).toEqual([
      "replaceView",
      { viewId: "v", body: { name: "late ones", page: "runs", query: "status:failed", shared: true } },
    ]);
    await expect(saveView(fixture.context, { name: "x", filter: "stauts:x", page: "runs" })).rejects.toMatchObject({
      exitCode: 2,
    });
  });
});
