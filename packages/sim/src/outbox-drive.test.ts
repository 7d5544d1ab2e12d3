import type { OutboxDisk } from "@astraflow/runtime";
import { describe, expect, it } from "vitest";
import { Dice } from "./dice.ts";
import { Life } from "./life.ts";
import { MachineClock } from "./machine-clock.ts";
import { OutboxDrive } from "./outbox-drive.ts";
import { quiet, Timeline } from "./timeline.ts";

function insert(seed = "disk") {
  const timeline = new Timeline();
  const drive = new OutboxDrive(timeline, new Dice(seed));
  const born = (): Life =>
    new Life("w", timeline, new MachineClock(timeline, { monoStart: 0, wallOffset: 0, driftPpm: 0 }), () => undefined);
  const life = born();
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
    while (timeline.step()) await quiet();
    return fate;
  };
  const text = async (disk: OutboxDisk): Promise<string> => String(Buffer.from((await finish(disk.read())) as Uint8Array));
  return { timeline, drive, born, life, disk: drive.open(life), finish, text };
}
const bytes = (text: string): Uint8Array => Buffer.from(text);

describe("a worker's disk", () => {
  it("[X7] keeps what was appended over the end of a process, and what was synced over the loss of power", async () => {
    const { drive, born, life, disk, finish, text } = insert();
    expect(await finish(disk.read())).toBe(null);
    await finish(disk.append(bytes("safe")));
    await finish(disk.sync());
    await finish(disk.append(bytes("and more")));

    life.end();
    const next = drive.open(born());
    expect(await text(next)).toBe("safeand more");
    drive.losePower();

    expect(await text(next)).toMatch(/^safe(a(n(d( (m(o(re?)?)?)?)?)?)?)?$/);
  });

  it("[X7] tears the tail anywhere when the power goes", async () => {
    const lengths = new Set<number>();
    for (let seed = 0; seed < 60; seed++) {
      const { drive, disk, finish, text } = insert(`torn ${seed}`);
      await finish(disk.append(bytes("ab")));
      await finish(disk.sync());
      await finish(disk.append(bytes("cdef")));

      drive.losePower();
      lengths.add((await text(disk)).length);
    }

    expect(lengths).toEqual(new Set([2, 3, 4, 5, 6]));
  });

  it("[X7] fails an append on a full disk and leaves some of its bytes behind, until there is room again", async () => {
    const { drive, disk, finish, text } = insert();
    await finish(disk.append(bytes("ok")));

    drive.faults.full++;
    const refused = await finish(disk.append(bytes("x".repeat(1_000))));
    drive.faults.full--;
    const orphans = (await text(disk)).length - 2;
    await finish(disk.truncate(2));
    await finish(disk.append(bytes("again")));

    expect(refused).toBe("ENOSPC");
    expect(orphans).toBeGreaterThan(0);
    expect(await text(disk)).toBe("okagain");
  });

  it("[X7] forgets what a failed sync did not write: the next one succeeds without it", async () => {
    const { drive, disk, finish, text } = insert("sync 2");
    await finish(disk.append(bytes("x".repeat(1_000))));

    drive.faults.sync++;
    const failed = await finish(disk.sync());
    drive.faults.sync--;
    const kept = (await finish(disk.read())) as Uint8Array | null;
    const second = await finish(disk.sync());
    drive.losePower();

    expect(failed).toBe("EIO");
    expect(second).toBe(undefined);
    expect(kept?.length).toBeLessThan(1_000);
    expect((await text(disk)).length).toBe(kept?.length);
  });

  it("[X7] replaces the file whole or not at all, and sets it aside", async () => {
    const { drive, disk, finish, text } = insert();
    await finish(disk.append(bytes("old")));
    drive.faults.append++;
    const refused = await finish(disk.replace(bytes("new")));
    drive.faults.append--;
    const before = await text(disk);
    await finish(disk.replace(bytes("new")));
    drive.losePower();
    const after = await text(disk);
    await finish(disk.setAside("damaged"));

    expect([refused, before, after]).toEqual(["EIO", "old", "new"]);
    expect(await finish(disk.read())).toBe(null);
  });

  it("[X7] answers a process late or never, as it is held or dead", async () => {
    const { disk, life, finish } = insert();
    life.hold();
    const waiting = disk.append(bytes("x"));
    expect(await finish(waiting)).toBe("nothing yet");
    life.release(true);
    expect(await finish(waiting)).toBe(undefined);

    life.end();

    expect(await finish(disk.sync())).toBe("nothing yet");
  });
});
