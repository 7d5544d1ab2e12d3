// The facts of a placement as people read them.
import type { JsonObject, Placement } from "@astraflow/protocol";
import { expect, it } from "vitest";
import { explainReason, suggestCommand } from "./why-command.ts";

const now = Date.parse("2026-01-31T12:00:00Z");
const place = { labels: new Map([["n-1", "Fetch"]]), startTimes: new Map([["n-1", "2026-01-31T11:59:00.000Z"]]), now };
const minuteAgo = now - 60_000;

const rows: [code: string, facts: JsonObject, explanation: string][] = [
  [
    "predecessors",
    {
      waitsFor: [
        { node: "n-1", phase: "leased" },
        { node: "n-2", phase: null },
      ],
      needs: 2,
    },
    "waits for Fetch, running since 2026-01-31 11:59:00Z (1 min ago); n-2, not reached",
  ],
  ["not-reached", { waitsFor: [] }, ""],
  [
    "key",
    {
      key: "k",
      limit: 1,
      held: 2,
      holders: [
        {
          task: "r.0",
          run: "r",
          node: "n-1",
          label: "Print",
          workflow: "Press",
          phase: "leased",
          since: minuteAgo,
          worker: "w-1",
        },
      ],
    },
    "key k held by Print of run r (Press) at w-1, since 2026-01-31 11:59:00Z (1 min ago); 1 more",
  ],
  ["key", { key: "k" }, "key k"],
  [
    "queued",
    { sinceMs: 5_000, priority: 5, until: null, runUntil: now + 60_000 },
    "in line for 5.0 s, priority 5, its run ends 2026-01-31 12:01:00Z (in 1 min)",
  ],
  ["retry", { failures: 2, until: "2026-01-31T12:01:00Z" }, "failed 2 times, tries again 2026-01-31 12:01:00Z (in 1 min)"],
  ["running", { worker: "w-1", attempt: 2, since: minuteAgo }, "runs at w-1, attempt 2, since 2026-01-31 11:59:00Z (1 min ago)"],
  ["slots", { slots: 4, busy: 4 }, "4 of 4 slots busy"],
  ["slots", { slots: 4, busy: null }, "4 slots"],
  ["slots", { slots: 4, busy: 4, unstopped: 2 }, "4 of 4 slots busy (2 by cancelled tasks that it cannot stop)"],
  ["package-version", { has: "1.0.0", needs: "2.0.0" }, "needs 2.0.0, has 1.0.0"],
  ["strained", { lacks: ["memory", "disk"] }, "lacks memory and disk"],
  ["draining", {}, ""],
  ["toString", { a: "\u001b[2J", b: [1] }, "a= [2J b=[1]"],
];

it.each(rows)("[L59] astra why explains the reason %s in plain language", (code, facts, explanation) => {
  expect(explainReason(code, facts, place)).toBe(explanation);
});

it("[L833] astra why suggests what can be done today: a worker with the package, or the field of the workflow to change", () => {
  const workers = [
    { workerName: "w-1", code: "package-missing", facts: { has: "", needs: "nobody@1.0.0" } },
    { workerName: "w-2", code: "package-version", facts: { has: "1.0.0", needs: "1.1.0" } },
  ];
  const placement = { runId: "r-1", nodeId: "n-1", workers, reasons: [] } as unknown as Placement;

  expect(suggestCommand("install-package", placement)).toBe(
    "start a worker whose --packages-dir has nobody@1.0.0, or astra runs cancel r-1",
  );
  expect(suggestCommand("install-version", placement)).toContain("has version 1.1.0 of the package, or astra runs cancel r-1");
  expect(suggestCommand("change-pool", placement)).toContain("policy.pool");
  expect(suggestCommand("raise-key-limit", placement)).toContain("policy.concurrency.limit");
});
