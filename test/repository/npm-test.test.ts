import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { repositoryRoot } from "../../scripts/repository-files.ts";
import { createCheckout, startScript, waitForEnd } from "./miniature-checkout.ts";

/** A vitest that reports what the test gives it. */
const fakeVitest = (counts: unknown, code: number, titles: readonly string[] | null = null) => `
import { writeFileSync } from "node:fs";
${titles === null ? "" : `writeFileSync(process.env.ASTRA_TEST_TITLES, ${JSON.stringify(JSON.stringify(titles))});`}
console.log("vitest " + process.argv.slice(2).join(" "));
${counts === null ? "" : `writeFileSync(process.env.ASTRA_TEST_COUNTS, ${JSON.stringify(JSON.stringify(counts))});`}
process.exit(${code});
`;
const createCheckoutWithVitest = (counts: unknown, code = 0) =>
  createCheckout({ isReady: true, files: { "node_modules/vitest/vitest.mjs": fakeVitest(counts, code) } });
/** With the check of cited tests, and a document that cites one. */
function createCheckoutWithCitedTest(cited: string, reported: readonly string[]) {
  const sources = ["repository-files", "checks/cited-titles", "checks/requirements", "checks/test-titles", "checks/tokens"];
  const scripts = sources.map((name) => [`scripts/${name}.ts`, readFileSync(join(repositoryRoot, `scripts/${name}.ts`), "utf8")]);
  const vitest = fakeVitest({ passed: 1, failed: 0, skipped: [] }, 0, reported);
  const requirements = [
    "| id | section | requirement | rule | test | state |",
    "|---|---|---|---|---|---|",
    `| R1 | 1 | Leases end | L1 | ${cited} | met |`,
  ];
  return createCheckout({
    isReady: true,
    files: {
      ...Object.fromEntries(scripts),
      "docs/requirements.md": requirements.join("\n"),
      "package.json": '{ "type": "module" }',
      "node_modules/vitest/vitest.mjs": vitest,
    },
  });
}
const lastLine = (output: string) => output.trimEnd().split("\n").at(-1);

describe("npm test", () => {
  it("[H4] npm test with a path runs only those tests, reports that the check is left out and ends with the counts", async () => {
    const checkout = createCheckoutWithVitest({ passed: 5, failed: 0, skipped: [] });

    const ended = await waitForEnd(startScript(checkout, "test.mjs", ["packages/store"]));

    expect(ended.output).toContain("check: left out, because only packages/store is tested");
    expect(ended.output).toContain("vitest run packages/store");
    expect(lastLine(ended.stdout)).toBe("5 passed, 0 failed");
    expect(ended.code).toBe(0);
  });

  it("[H4] npm test exits with 1 when a test failed", async () => {
    const ended = await waitForEnd(
      startScript(createCheckoutWithVitest({ passed: 5, failed: 2, skipped: [] }, 1), "test.mjs", ["packages"]),
    );

    expect(lastLine(ended.stdout)).toBe("5 passed, 2 failed");
    expect(ended.code).toBe(1);
  });

  it("[H4] npm test runs the check beside the tests and counts its failed steps", async () => {
    const checkout = createCheckoutWithVitest({ passed: 5, failed: 0, skipped: [] });
    checkout.env["PATH"] = "/usr/bin:/bin"; // none of the tools: every step fails

    const ended = await waitForEnd(startScript(checkout, "test.mjs"));

    expect(ended.output.indexOf("✗ docs")).toBeGreaterThan(0);
    expect(ended.output).toContain("vitest run");
    expect(ended.output).toContain("failed check: docs");
    expect(lastLine(ended.stdout)).toMatch(/^5 passed, [1-9]\d* failed$/);
    expect(ended.code).toBe(1);
  });

  it("[H25] npm test fails when a document cites a title that no test of the run reported, and passes that step when each was reported", async () => {
    const reported = ["[L1] ends on memory", "[L1] ends on sqlite"];
    const wrong = await waitForEnd(startScript(createCheckoutWithCitedTest("[L1] ends on paper", reported), "test.mjs"));
    const right = await waitForEnd(startScript(createCheckoutWithCitedTest("[L1] ends on sqlite", reported), "test.mjs"));

    expect(wrong.output).toContain('R1 names a test that did not run: "[L1] ends on paper"');
    expect(wrong.output).toContain("failed check: cited tests");
    expect(wrong.code).toBe(1);
    expect(right.output).toContain("✓ cited tests");
    expect(right.output).not.toContain("failed check: cited tests");
  });

  it("[H25] npm test with a path does not compare cited titles, because most of them did not run", async () => {
    const checkout = createCheckoutWithCitedTest("[L1] ends on paper", ["[L1] ends on sqlite"]);
    const ended = await waitForEnd(startScript(checkout, "test.mjs", ["packages"]));

    expect(ended.output).not.toContain("cited tests");
    expect(ended.code).toBe(0);
  });

  it("[H5] npm test fails when the test runner ended without a result, even with exit code 0", async () => {
    const ended = await waitForEnd(startScript(createCheckoutWithVitest(null), "test.mjs", ["packages"]));

    expect(lastLine(ended.stdout)).toBe("0 passed, 1 failed");
    expect(ended.code).toBe(1);
  });

  it("[H3] npm test exits with 2 and still ends with the counts when the set-up fails", async () => {
    const checkout = createCheckout({ isReady: false, files: { "npm-code": "1" } });

    const ended = await waitForEnd(startScript(checkout, "test.mjs"));

    expect(ended.output).toContain("did not succeed");
    expect(lastLine(ended.stdout)).toBe("0 passed, 1 failed");
    expect(ended.code).toBe(2);
  });

  it("[H2] npm test installs a missing system package with apt-get when run as root, and otherwise shows the command for it", async () => {
    const checkout = createCheckoutWithVitest({ passed: 1, failed: 0, skipped: [] });
    const plan = join(checkout.root, "scripts/setup-plan.mjs");
    writeFileSync(plan, readFileSync(plan, "utf8").replaceAll(/probe: ".*"/g, 'probe: "/no/such/*/folder"'));
    writeFileSync(join(checkout.root, "fake/apt-get"), '#!/bin/sh\necho "apt-get $*"\n', { mode: 0o755 });

    const ended = await waitForEnd(startScript(checkout, "test.mjs", ["packages"]));

    const isRoot = process.getuid?.() === 0;
    const install = "apt-get install -y --no-install-recommends postgresql";
    expect(ended.output).toContain(isRoot ? `apt-get update\n${install}` : `run: sudo ${install}`);
    expect(ended.code).toBe(isRoot ? 0 : 2);
  });

  it("[H1040] npm test goes on without Chromium where it cannot be installed, and says so", async () => {
    const checkout = createCheckoutWithVitest({ passed: 1, failed: 0, skipped: [] });
    const plan = join(checkout.root, "scripts/setup-plan.mjs");
    const probes = { all: /probe: ".*"/g, chromium: /(name: "chromium",\s+probe: )".*"/ };
    const text = readFileSync(plan, "utf8").replaceAll(probes.all, 'probe: "/"').replace(probes.chromium, '$1"/no/such/file"');
    writeFileSync(plan, text);
    writeFileSync(join(checkout.root, "fake/apt-get"), "#!/bin/sh\necho 'no route to host'\nexit 100\n", { mode: 0o755 });

    const ended = await waitForEnd(startScript(checkout, "test.mjs", ["packages"]));

    const isRoot = process.getuid?.() === 0;
    expect(ended.output).toContain(isRoot ? "continuing without chromium: " : "missing chromium: ");
    expect(ended.code).toBe(0);
  });

  it("[H3] npm test exits with 2 when a system package cannot be installed, and shows the output of the attempt", async () => {
    const checkout = createCheckoutWithVitest({ passed: 1, failed: 0, skipped: [] });
    const plan = join(checkout.root, "scripts/setup-plan.mjs");
    writeFileSync(plan, readFileSync(plan, "utf8").replaceAll(/probe: ".*"/g, 'probe: "/no/such/*/folder"'));
    writeFileSync(join(checkout.root, "fake/apt-get"), "#!/bin/sh\necho 'no route to host'\nexit 100\n", { mode: 0o755 });

    const ended = await waitForEnd(startScript(checkout, "test.mjs", ["packages"]));

    expect(ended.code).toBe(2);
    expect(ended.output).toContain(process.getuid?.() === 0 ? "no route to host" : "run: sudo apt-get install");
    expect(lastLine(ended.stdout)).toBe("0 passed, 1 failed");
  });
});
