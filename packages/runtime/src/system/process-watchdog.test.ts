import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { afterEach, describe, expect, it } from "vitest";
import { killProcessGroup } from "./child-processes.ts";
import { identifyProcess, listGroupMembers, parseProcStat, WatchedGroups } from "./process-groups.ts";
import { ProcessWatchdog } from "./process-watchdog.ts";

const children: ChildProcess[] = [];
afterEach(() => {
  for (const { pid } of children.splice(0)) if (pid !== undefined) killProcessGroup(pid, "SIGKILL");
});

/** A group whose first process prints a line once it runs. */
async function group(
  script = "echo up; exec sleep 600",
  stdin: "ignore" | "pipe" = "ignore",
): Promise<ChildProcess & { pid: number }> {
  const child = spawn("sh", ["-c", script], { detached: true, stdio: [stdin, "pipe", "ignore"] });
  children.push(child);
  await once(child.stdout as NodeJS.ReadableStream, "data");
  return child as typeof child & { pid: number };
}

describe("the watcher of the handlers' processes", () => {
  it("[W185] the process watchdog kills the process groups that are left once nobody holds its pipe, and no others", async () => {
    const reports: string[] = [];
    const watch = new ProcessWatchdog(({ message }) => reports.push(message));
    const [left, over] = [await group(), await group()];
    for (const { pid } of [left, over]) watch.watchGroup(pid);
    watch.unwatchGroup(over.pid);

    watch.close();
    const [, signal] = await once(left, "exit");

    expect(signal).toBe("SIGKILL");
    expect(identifyProcess(over.pid)).not.toBeNull();
    expect(reports).toEqual([]);
  });

  it("[W185] the process watchdog kills what the first process of a group has left behind", async () => {
    const watch = new ProcessWatchdog(() => undefined);
    const { pid, stdout, stdin } = await group("sleep 600 & echo up; read line", "pipe");
    stdin?.end("go\n");
    await once(children[0] as ChildProcess, "exit");
    expect(listGroupMembers(pid)).toHaveLength(1);

    watch.watchGroup(pid);
    watch.close();

    // It was held by whoever was left.
    await once(stdout as NodeJS.ReadableStream, "close");
  });

  it("[W185] the process watchdog leaves a group alone whose id is now used by other processes", () => {
    const present = new Map([
      [7, ["7:100", "8:101"]],
      [9, ["9:100"]],
      [11, ["11:100"]],
    ]);
    const membersNow = (id: number) => present.get(id) ?? [];
    const nameOf = (id: number) => membersNow(id).find((name) => name.startsWith(`${id}:`)) ?? null;
    const groups = new WatchedGroups({ identify: nameOf, listMembers: membersNow });
    for (const id of [7, 9, 11]) groups.watch(id);

    // The first of 7 leaves another behind, which is looked at; 9 is another process by now; of 11 nobody is left.
    present.set(7, ["8:101"]);
    groups.watch(7);
    present.set(7, ["8:101", "12:900"]);
    present.set(9, ["9:500"]);
    present.delete(11);

    expect(groups.survivingGroups()).toEqual([7]);
    groups.unwatch(7);
    expect(groups.survivingGroups()).toEqual([]);
  });

  it("[W185] the process watchdog parses the system's process status, whatever name a process gives itself", () => {
    const rest = "S 1 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 987654 1 1";
    expect(parseProcStat(`57 (a) b (c) ${rest}`)).toEqual({ group: 42, identity: "57:987654" });
    expect(identifyProcess(2 ** 22 + 1)).toBeNull();
  });
});
