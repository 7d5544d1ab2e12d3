import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type CommandRequest, defaultSettings, type Effect } from "@astraflow/engine";
import { defaultRetention } from "@astraflow/services";
import { afterEach, describe, expect, it } from "vitest";
import { type EngineHost, type EngineHostOptions, startEngineHost } from "./engine-host.ts";

const folders: string[] = [];
const hosts: EngineHost[] = [];
afterEach(async () => {
  await Promise.all(hosts.splice(0).map((host) => host.stop()));
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

function optionsFor(threads: number, more: Partial<EngineHostOptions> = {}): EngineHostOptions {
  const folder = mkdtempSync(join(tmpdir(), "astra-host-"));
  folders.push(folder);
  const attemptLimits = { attemptTimeoutMs: null, silentGraceMs: 60_000, unstoppedSlotMs: 3_600_000 };
  const times = {
    thresholds: defaultSettings,
    tenants: {},
    retention: defaultRetention,
    retentionByTenant: {},
    ackDeadlineMs: 5_000,
    attemptLimits,
    packageDeadlineMs: 1_800_000,
    timeScale: 1,
  };
  const store = { of: "sqlite", file: join(folder, "astra.db") } as const;
  return { threads, store, cluster: "c", replica: "r", failpoints: [], turnsInFlight: 1, ...times, ...more };
}

/** A command whose answer is known without any row: there is no such run. */
const cancelCommand = (ref: number): CommandRequest => ({
  ref,
  command: { type: "run.cancel", tenant: "default", by: "test", run: "01900000-0000-7000-8000-000000000000", reason: "" },
});

/** Starts a host and collects its effects. */
async function start(options: EngineHostOptions) {
  const batches: (readonly Effect[])[] = [];
  let wake = () => {};
  const host = await startEngineHost(options, {
    onEffects(effects) {
      batches.push(effects);
      wake();
    },
    onProblem: () => undefined,
    onSwept: () => undefined,
  });
  hosts.push(host);
  const answers = () => batches.flat().filter((effect) => effect.type === "answer");
  const waitForAnswers = async (count: number) => {
    while (answers().length < count) await new Promise<void>((resolve) => (wake = resolve));
    return answers();
  };
  return { host, batches, waitForAnswers };
}

for (const threads of [0, 1]) {
  describe(`an engine host with --threads ${threads}`, () => {
    it("[O17] an engine host answers every command once, and commands pushed together in few batches", async () => {
      const { host, waitForAnswers, batches } = await start(optionsFor(threads));

      for (let ref = 1; ref <= 50; ref += 1) host.push([cancelCommand(ref)]);
      const answers = await waitForAnswers(50);

      expect(answers.map((answer) => answer.ref)).toEqual(Array.from({ length: 50 }, (_, at) => at + 1));
      expect(new Set(answers.map((answer) => answer.fault?.code))).toEqual(new Set(["E.NOT_FOUND"]));
      // One turn each would be fifty fsyncs under load.
      expect(batches.length).toBeLessThan(10);
      expect(host.gauge().turns).toBeGreaterThan(0);
    });

    it("[O17] an engine host releases the store when it stops, so that the next one can open it", async () => {
      const options = optionsFor(threads);
      const first = await start(options);
      await first.host.stop();
      hosts.splice(0);

      const second = await start(options);
      second.host.push([cancelCommand(7)]);

      expect((await second.waitForAnswers(1))[0]).toMatchObject({ ref: 7 });
    });

    it("[O2] an engine host fails to start with the store's own fault if the store cannot be opened", async () => {
      const options = optionsFor(threads);
      if (options.store.of === "sqlite") mkdirSync(options.store.file);

      await expect(start(options)).rejects.toMatchObject({ name: "Fault", code: "E.STORE.OPEN" });
    });
  });
}

it("[O13] the engine host reports that its engine thread has died, with the reason", async () => {
  const { host } = await start(optionsFor(1, { failpoints: [{ name: "turn.begun", action: "throw", pass: 2 }] }));

  host.push([cancelCommand(1)]);

  expect((await host.died).message).toContain("failpoint turn.begun throws at pass");
  hosts.splice(0);
});
