import { expect, it } from "vitest";
import { readWorkerConfig } from "./config.ts";
import { renderHelp } from "./help-text.ts";
import { type WorkerSetting, workerFlagOf, workerSettings } from "./setting-table.ts";

const rows = (workerSettings as readonly WorkerSetting[]).filter((setting) => setting.without === undefined);
const read = (env: Record<string, string>) =>
  readWorkerConfig({
    argv: [],
    env: { ASTRA_WORKER_AUTH_TOKEN: "t", ...env },
    hostname: "box",
    readFile: () => new Error("no such file"),
    readInput: () => "",
    isDirectory: () => true,
  });

it("[W60] help names the flag and the variable of every setting that has an effect, with its default", () => {
  const help = renderHelp();

  for (const setting of rows) expect(help).toContain(`  --${workerFlagOf(setting)}, ASTRA_WORKER_${setting.name}\n`);
  expect(help).toContain("with commas between them (default ws://127.0.0.1:8080/ws/worker)");
  expect(help).toContain("tasks that run at once (default 4)");
});

it("[W60] help names exactly the defaults that hold: given as a value, each changes nothing", () => {
  const named = rows.filter((setting) => setting.otherwise !== undefined);
  const plain = read({});

  expect(named.length).toBeGreaterThan(10);
  for (const { name, otherwise = "" } of named)
    expect({ name, read: read({ [`ASTRA_WORKER_${name}`]: otherwise }) }).toEqual({ name, read: plain });
});
