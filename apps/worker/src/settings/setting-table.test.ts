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

  for (const { flag, key } of listedSettings)
    expect(help).toMatch(new RegExp(`^  ${flag}( [@A-Z:]+)?, ASTRA_WORKER_${key}$`, "m"));
  expect(help.replace(/\s+/g, " ")).toContain("(default ws://127.0.0.1:8080/ws/worker)");
  expect(help).toContain("tasks that run at once (default 4)");
});

it("[L912] the worker's help shows the unit and the values of a setting, and no line is longer than 100 characters", () => {
  const help = renderHelp();

  expect(help).toContain("--session-accept-timeout-seconds SECONDS, ");
  expect(help).toContain("--resource-max-disk-bytes BYTES, ");
  expect(help).toContain("(default 1073741824, which is 1 GiB)");
  expect(help).toContain("(default 30000, which is 30 s)");
  expect(help.replace(/\s+/g, " ")).toContain(
    "one of trace, debug, info, warn, warning, error, fatal, critical, silent; default info",
  );
  expect(help).not.toMatch(/\bdoor\b/);
  expect(Math.max(...help.split("\n").map((line) => line.length))).toBeLessThanOrEqual(100);
});

it("[W60] the worker's help lists the actual defaults: setting each explicitly changes nothing", () => {
  const named = listedSettings.filter((setting) => setting.default !== undefined);
  const plain = read({});

  expect(named.length).toBeGreaterThan(10);
  for (const { key, default: value } of named)
    expect({ key, read: read({ [`ASTRA_WORKER_${key}`]: String(value) }) }).toEqual({ key, read: plain });
});
