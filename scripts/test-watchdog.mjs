/**
 * Names tests that take long and files that hang, from outside the processes that run them: a test that loops for ever cannot report itself,
 * and no timer of its own process fires. Reads the notes that test-progress.ts leaves. Free of dependencies, as test.mjs is.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";

/** @type {import("./test-watchdog.d.mts").ReadProgress} */
export const readProgress = (folder) =>
  readdirSync(folder)
    .filter((name) => /^[0-9]+\.json$/.test(name))
    .flatMap((name) => {
      const text = readFileSync(join(folder, name), "utf8");
      // Seen while it was being written: the next look finds it whole.
      if (!text.endsWith("}")) return [];
      return [{ ...JSON.parse(text), process: Number(name.slice(0, -".json".length)) }];
    });

/** @type {import("./test-watchdog.d.mts").DescribeProgress} */
export const describeProgress = ({ file, fileSince, title, since }, root, now) => {
  const seconds = Math.round((now - since) / 1000);
  const whole = Math.round((now - fileSince) / 1000);
  const what = title === null ? "a hook, or what is outside of tests," : `test ${title}`;
  return `${relative(root, file)}: ${what} has run ${seconds} s${whole > seconds ? `, its file ${whole} s` : ""}`;
};

/** @type {import("./test-watchdog.d.mts").CreateWatchdog} */
export const createWatchdog = ({ folder, root, fileLimitMs, namedAfterMs }) => {
  /** How often each process was named for the same test. @type {Map<number, { since: number; times: number }>} */
  const named = new Map();
  return {
    look(now) {
      const running = readProgress(folder).filter((one) => !one.isEnded);
      const lines = [];
      for (const one of running) {
        const before = named.get(one.process);
        const times = before?.since === one.since ? before.times : 0;
        if (now - one.since < namedAfterMs * (times + 1)) continue;
        named.set(one.process, { since: one.since, times: times + 1 });
        lines.push(describeProgress(one, root, now));
      }
      return { lines, hanging: running.filter(({ fileSince }) => now - fileSince >= fileLimitMs) };
    },
  };
};
