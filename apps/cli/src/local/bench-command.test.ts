import { expect, it } from "vitest";
import { createCommandFixture } from "../testing/command-fixture.ts";
import { runBench } from "./bench-command.ts";

it("[L63] astra bench --json prints one document with the figures of the bench by name", async () => {
  const fixture = createCommandFixture({});
  const args = ["chain", "--part", "list", "--runs-stored", "50", "--pages", "1"];

  expect(await runBench({ terminal: fixture.context.terminal, json: true }, { args, quiet: true })).toBe(0);

  const document = JSON.parse(fixture.stdout()) as { figures: { pages: object[] }; lines: string[] };
  expect(document).toMatchObject({ bench: "chain", exitCode: 0 });
  expect(document.lines.length).toBeGreaterThan(document.figures.pages.length);
  expect(document.figures.pages[0]).toMatchObject({
    store: "sqlite",
    question: "newest",
    sides: [{ runs: 1_000, ms: { p50: expect.any(Number) }, items: 50, isMore: true }, { runs: 50 }],
  });
});
