import { describe, expect, it } from "vitest";
import { runProgram } from "../command-line/program.ts";
import { Terminal } from "../output/terminal.ts";
import { formatCampaignProgress } from "./sim-command.ts";

async function runSimCommand(...argv: string[]) {
  const output = { out: "", err: "" };
  const never = new AbortController().signal;
  const stdout = { write: (text: string) => (output.out += text) };
  const stderr = { write: (text: string) => (output.err += text) };
  const exitCode = await runProgram(["sim", ...argv], { stdout, stderr, env: {}, stopSignal: never, forceStopSignal: never });
  return { exitCode, ...output };
}

describe("astra sim", () => {
  it("[X46] astra sim runs a range of seeds, prints a summary and ends with exit code 0", async () => {
    const { exitCode, out } = await runSimCommand("--seeds", "1..3", "--twice");

    expect(exitCode).toBe(0);
    expect(out).toMatch(/^3 seeds in .* simulated hours\n/);
    expect(out).toMatch(/no violations\n$/);
  });

  it("[X46] astra sim --json prints one line of data per seed and a summary", async () => {
    const { exitCode, out } = await runSimCommand("--seeds", "1..2", "--profile", "calm", "--json");

    const [first, second, summary] = out
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(exitCode).toBe(0);
    expect(first).toMatchObject({ seed: 1, violations: [], differs: null, traceHash: expect.stringMatching(/^[0-9a-f]{32}$/) });
    expect(second).toMatchObject({ seed: 2 });
    expect(summary).toMatchObject({ summary: true, seeds: 2, profile: "calm", violations: [], neverStruck: [] });
  });

  it("[X57] astra sim --refuse-resume runs sessions with every resume refused, without violations", async () => {
    const { exitCode, out } = await runSimCommand("--seeds", "1..3", "--profile", "session", "--refuse-resume");

    expect(exitCode).toBe(0);
    expect(out).toMatch(/no violations\n$/);
  });

  it("[X46] astra sim expects a mutant to be caught and reports the seed, and ends with exit code 1 if it is not caught", async () => {
    const caught = await runSimCommand("--seeds", "6..500", "--plant", "requeue-forgets-fence");
    const missed = await runSimCommand("--seeds", "1..1", "--profile", "calm", "--plant", "ack-before-commit");

    expect(caught).toMatchObject({
      exitCode: 0,
      err: expect.stringContaining("requeue-forgets-fence was caught by single-lease (I3) in seed"),
    });
    expect(caught.out).toContain("single-lease (I3)");
    expect(missed).toMatchObject({ exitCode: 1, err: expect.stringContaining("was not caught in 1 seed\n") });
  });

  it("[X46] astra sim --story prints the trace of one seed", async () => {
    const { exitCode, out } = await runSimCommand("--seed", "3", "--story");

    expect(exitCode).toBe(0);
    expect(out).toContain("0.0 world of seed 3");
    expect(out).toContain("phase end");
  });

  it("[X46] astra sim ends with exit code 2 for a bad seed range, an unknown profile or mutant, or flags that contradict", async () => {
    expect(await runSimCommand("--seeds", "9..3")).toMatchObject({ exitCode: 2, err: expect.stringContaining("is not a range") });
    expect(await runSimCommand("--profile", "sunny")).toMatchObject({
      exitCode: 2,
      err: expect.stringContaining("use one of default, calm"),
    });
    expect(await runSimCommand("--plant", "weed")).toMatchObject({
      exitCode: 2,
      err: expect.stringContaining("ack-before-commit"),
    });
    expect(await runSimCommand("--story")).toMatchObject({ exitCode: 2, err: expect.stringContaining("needs a single seed") });
    expect(await runSimCommand("--seed", "1", "--seeds", "1..2")).toMatchObject({ exitCode: 2 });
    expect(await runSimCommand("--save", "--plant", "drop-unit")).toMatchObject({
      exitCode: 2,
      err: expect.stringContaining("no regression"),
    });
  });

  it("[X46] astra sim shows a progress bar on a terminal and plain text in a pipe", () => {
    const count = { seeds: 50, total: 200, violations: 1, simulatedMs: 7_200_000, events: 9 };
    const open = (isTTY: boolean) => {
      const output = { write: () => true, isTTY };
      return new Terminal({ stdout: output, stderr: output, env: { NO_COLOR: "1" }, isQuiet: false, wantsColor: false });
    };
    const words = "50 of 200 seeds · 10.0 a second · 15 s left · 2.0 simulated hours · 1 violations";

    expect(formatCampaignProgress(count, 5_000, open(true))).toBe(`━━━━━━────────────────── ${words}`);
    expect(formatCampaignProgress(count, 5_000, open(false))).toBe(words);
  });
});
