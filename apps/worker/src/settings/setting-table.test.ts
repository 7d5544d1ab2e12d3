import { expect, it } from "vitest";
import { readWorkerConfig } from "./config.ts";
import { listedSettings, renderHelp } from "./setting-table.ts";

const read = (env: Record<string, string>) =>
  readWorkerConfig({
    argv: [],
    env: { ASTRA_WORKER_AUTH_TOKEN: "t", ...env },
    hostname: "box",
    readFile() {
      throw new Error("no such file");
    },
    readInput: () => "",
    isDirectory: () => true,
  });

it("[W60] the worker's help lists the flag and the variable of every setting that has an effect, with its default", () => {
  const help = renderHelp();

  for (const { flag, key } of listedSettings) expect(help).toContain(`  ${flag}, ASTRA_WORKER_${key}\n`);
  expect(help).toContain("with commas between them (default ws://127.0.0.1:8080/ws/worker)");
  expect(help).toContain("tasks that run at once (default 4)");
});

it("[W60] the worker's help lists the actual defaults: setting each explicitly changes nothing", () => {
  const named = listedSettings.filter((setting) => setting.default !== undefined);
  const plain = read({});

  expect(named.length).toBeGreaterThan(10);
  for (const { key, default: value } of named)
    expect({ key, read: read({ [`ASTRA_WORKER_${key}`]: String(value) }) }).toEqual({ key, read: plain });
});
