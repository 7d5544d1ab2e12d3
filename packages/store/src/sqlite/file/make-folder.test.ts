import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { expect, it } from "vitest";

/** In a process of its own: where it hangs, it hangs in a system call that no timer of ours can end. */
const script = `
  import { openSqlite } from ${JSON.stringify(new URL("../store.ts", import.meta.url).href)};
  const store = openSqlite({ file: "/proc/none/of/ours/store.db", clock: { wall: () => 0, mono: () => 0 } });
  await store.open({ replica: "a", cluster: "test" }).catch((cause) => console.log(cause.code));
`;

it("[S33] the SQLite store refuses at once a folder that the system lets nobody create", (ctx) => {
  if (!existsSync("/proc")) ctx.skip("this system has no /proc, where folders cannot be made");

  const end = spawnSync(process.execPath, ["--no-warnings", "--input-type=module", "--eval", script], {
    encoding: "utf8",
    timeout: 10_000,
    killSignal: "SIGKILL",
  });

  expect(end).toMatchObject({ status: 0, stdout: "E.STORE.OPEN\n" });
}, 20_000);
