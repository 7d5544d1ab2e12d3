import type { OutboxDisk } from "@astraflow/runtime";
import { describe, expect, it } from "vitest";
import { MachineClock } from "../kernel/machine-clock.ts";
import { ProcessEventLoop } from "../kernel/process-event-loop.ts";
import { SeededRandom } from "../kernel/seeded-random.ts";
import { drainMicrotasks, Timeline } from "../kernel/timeline.ts";
import { SimulatedOutboxDisk } from "./simulated-outbox-disk.ts";

function createDisk(seed = "disk") {
  const timeline = new Timeline();
  const outboxDisk = new SimulatedOutboxDisk(timeline, new SeededRandom(seed));
  const born = (): ProcessEventLoop =>
    new ProcessEventLoop(
      "w",
      timeline,
      new MachineClock(timeline, { monoStart: 0, wallOffset: 0, driftPpm: 0 }),
      () => undefined,
    );
  const eventLoop = born();
  /** What became of a call: its value, or the code it failed with, or "nothing yet". */
  const finish = async <T>(asked: Promise<T>): Promise<T | string> => {
    let fate: T | string = "nothing yet";
    asked.then(
      (value) => {
        fate = value;
      },
      (problem: unknown) => {
        fate = (problem as { code: string }).code;
      },
    );
    while (timeline.runNextEvent()) await drainMicrotasks();
    return fate;
  };
  const text = async (disk: OutboxDisk): Promise<string> => String(Buffer.from((await finish(disk.read())) as Uint8Array));
  return { timeline, drive: outboxDisk, born, life: eventLoop, disk: outboxDisk.open(eventLoop), finish, text };
}
const bytes = (text: string): Uint8Array => Buffer.from(text);

describe("a worker's disk", () => {
  it("[X7] the simulated disk keeps appended data when its process ends, and synced data when power is lost", async () => {
    const { drive: outboxDisk, born, life: eventLoop, disk, finish, text } = createDisk();
    expect(await finish(disk.read())).toBe(null);
    await finish(disk.append(bytes("safe")));
    await finish(disk.sync());
    await finish(disk.append(bytes("and more")));

    eventLoop.end();
    const next = outboxDisk.open(born());
    expect(await text(next)).toBe("safeand more");
    outboxDisk.losePower();

    expect(await text(next)).toMatch(/^safe(a(n(d( (m(o(re?)?)?)?)?)?)?)?$/);
  });

  it("[X7] a power loss cuts the unsynced tail of the simulated disk at any byte", async () => {
    const lengths = new Set<number>();
    for (let seed = 0; seed < 60; seed++) {
      const { drive: outboxDisk, disk, finish, text } = createDisk(`torn ${seed}`);
      await finish(disk.append(bytes("ab")));
      await finish(disk.sync());
      await finish(disk.append(bytes("cdef")));

      outboxDisk.losePower();
      lengths.add((await text(disk)).length);
    }

    expect(lengths).toEqual(new Set([2, 3, 4, 5, 6]));
  });

  it("[X7] an append to a full simulated disk fails and leaves some of its bytes behind, until there is room again", async () => {
    const { drive: outboxDisk, disk, finish, text } = createDisk();
    await finish(disk.append(bytes("ok")));

    outboxDisk.faults.full++;
    const refused = await finish(disk.append(bytes("x".repeat(1_000))));
    outboxDisk.faults.full--;
    const orphans = (await text(disk)).length - 2;
    await finish(disk.truncate(2));
    await finish(disk.append(bytes("again")));

    expect(refused).toBe("ENOSPC");
    expect(orphans).toBeGreaterThan(0);
    expect(await text(disk)).toBe("okagain");
  });

  it("[X7] the simulated disk drops what a failed sync did not write, and the next sync succeeds without it", async () => {
    const { drive: outboxDisk, disk, finish, text } = createDisk("sync 2");
    await finish(disk.append(bytes("x".repeat(1_000))));

    outboxDisk.faults.sync++;
    const failed = await finish(disk.sync());
    outboxDisk.faults.sync--;
    const kept = (await finish(disk.read())) as Uint8Array | null;
    const second = await finish(disk.sync());
    outboxDisk.losePower();

    expect(failed).toBe("EIO");
    expect(second).toBe(undefined);
    expect(kept?.length).toBeLessThan(1_000);
    expect((await text(disk)).length).toBe(kept?.length);
  });

  it("[X7] the simulated disk replaces its file completely or not at all, and can set it aside", async () => {
    const { drive: outboxDisk, disk, finish, text } = createDisk();
    await finish(disk.append(bytes("old")));
    outboxDisk.faults.append++;
    const refused = await finish(disk.replace(bytes("new")));
    outboxDisk.faults.append--;
    const before = await text(disk);
    await finish(disk.replace(bytes("new")));
    outboxDisk.losePower();
    const after = await text(disk);
    await finish(disk.setAside("damaged"));

    expect([refused, before, after]).toEqual(["EIO", "old", "new"]);
    expect(await finish(disk.read())).toBe(null);
  });

  it("[X7] the simulated disk answers a paused process when it resumes, and a dead process never", async () => {
    const { disk, life: eventLoop, finish } = createDisk();
    eventLoop.pause();
    const waiting = disk.append(bytes("x"));
    expect(await finish(waiting)).toBe("nothing yet");
    eventLoop.resume(true);
    expect(await finish(waiting)).toBe(undefined);

    eventLoop.end();

    expect(await finish(disk.sync())).toBe("nothing yet");
  });
});
