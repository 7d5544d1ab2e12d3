// Package commands over a session: acked once they are on disk, refused by workers that install nothing, reported until acked.
import { describe, expect, it } from "vitest";
import { LinkHarness, readyLinkHarness } from "../../test/link-harness.ts";
import type { TakenPackageCommand } from "../packages/install-journal.ts";

const accept = { features: ["pkg.install"] };

class PackageCommandHarness extends LinkHarness {
  readonly taken: { command: TakenPackageCommand; store: () => void; fail: (problem: Error) => void }[];
  readonly acked: string[];
  readonly leaving: Set<string>;

  constructor() {
    const taken: PackageCommandHarness["taken"] = [];
    const acked: string[] = [];
    const leaving = new Set<string>();
    super({
      packageCommands: {
        take: (command) => new Promise((store, fail) => void taken.push({ command, store, fail })),
        eventAcked: (command) => void acked.push(command),
        isLeaving: (name, version) => leaving.has(`${name} ${version}`),
      },
    });
    this.taken = taken;
    this.acked = acked;
    this.leaving = leaving;
    this.link.start();
  }

  sendInstall(seq = 0): void {
    const about = { name: "extra", version: "1.0.0", url: "https://example.com/a.cwx", command_id: "c-1" };
    this.sendToLink("biz.pkg.install", about, { id: `frame-${seq}`, seq, corr: "c-1", ack: { request: true } });
    this.flush();
  }
}

function openHarness(): PackageCommandHarness {
  const harness = new PackageCommandHarness();
  harness.openSession(accept);
  return harness;
}

const event = { name: "extra", version: "1.0.0", command_id: "c-1" } as const;
const acksOf = (harness: LinkHarness) => harness.frames("control.ack").map(({ payload }) => payload["ack_seq"]);

describe("package commands", () => {
  it("[W754] a package command is acked once it is on disk, with everything that came after it, and one that cannot be stored is refused", async () => {
    const harness = openHarness();
    harness.sendInstall();
    harness.dispatch("a", { seq: 1 });
    harness.flush();
    const before = acksOf(harness);

    harness.taken[0]?.store();
    await new Promise(setImmediate);
    harness.flush();

    expect(before).toEqual([-1]);
    expect(acksOf(harness).at(-1)).toBe(1);
    const { payload: _, ...command } = harness.taken[0]?.command ?? { payload: {} };
    expect(command).toEqual({
      type: "install",
      id: "c-1",
      frame: { type: "biz.pkg.install", id: "frame-0", corr: "c-1", seq: 0 },
    });
    harness.sendInstall(2);
    harness.taken[1]?.fail(new Error("the disk is full"));
    await new Promise(setImmediate);
    harness.flush();
    expect(harness.frames("control.ack").at(-1)?.payload).toMatchObject({ ok: false, for: "frame-2", info: "the disk is full" });
  });

  it("[W754] the end of a command is sent until it is acked, across sessions, and whoever took it is told then", () => {
    const harness = openHarness();
    harness.link.sendPackageEvent({ ...event, status: "installed" }, "c-1");
    harness.flush();
    harness.link.connectionLost("gone");
    harness.advance(60_000);
    harness.openSession(accept);

    const frames = harness.frames("biz.pkg.event");
    const before = [...harness.acked];
    harness.ackUpTo(0);

    expect(frames.map(({ id }) => id)).toEqual([frames[0]?.id, frames[0]?.id]);
    expect(before).toEqual([]);
    expect(harness.acked).toEqual(["c-1"]);
  });

  it("[W755] stages are sent only to a scheduler whose accept names pkg.install, and only while it is connected", () => {
    const stage = { ...event, status: "installing", stage: "download", progress: 0 } as const;
    const older = new PackageCommandHarness();
    older.openSession();
    older.link.sendPackageEvent(stage, null);
    older.flush();
    const harness = openHarness();
    harness.link.sendPackageEvent(stage, null);
    harness.flush();
    harness.link.connectionLost("gone");
    harness.link.sendPackageEvent({ ...stage, stage: "verify" }, null);
    harness.advance(60_000);
    harness.openSession(accept);

    expect(older.frames("biz.pkg.event")).toEqual([]);
    const sent = harness.frames("biz.pkg.event").map(({ payload }) => payload["stage"]);
    expect(new Set(sent)).toEqual(new Set(["download"]));
  });

  it("[W755] changed packages are announced by a catalogue with the manifests, and then by a heartbeat", () => {
    const harness = openHarness();
    harness.packages = [{ name: "demo", version: "1.0.1", status: "installed" }];
    const from = harness.sent.length;

    harness.link.packagesChanged();
    harness.flush();

    const types = harness.sent.slice(from).map(({ type }) => type);
    expect(types.toSorted()).toEqual(["biz.pkg.catalog", "control.heartbeat"]);
    expect(harness.payload("biz.pkg.catalog").packages).toEqual([
      { name: "demo", version: "1.0.0", status: "installed", manifest: { name: "demo" } },
    ]);
    expect(harness.payload("control.heartbeat").packages).toMatchObject({ installed: harness.packages });
  });

  it("[W752] a task of a version that is being removed goes back to the scheduler, and one that runs counts as its user", () => {
    const harness = openHarness();
    harness.dispatch("a");
    harness.leaving.add("demo 1.0.0");
    harness.dispatch("b");
    harness.flush();

    const wasUsed = harness.link.hasAttemptsOf("demo", "1.0.0");
    harness.finish("a");

    expect(harness.started.map(({ task }) => task)).toEqual(["a"]);
    const refusal = harness.frames("biz.exec.error").find(({ corr }) => corr === "b");
    expect(refusal?.payload).toMatchObject({ code: "E.RUNNER.CANCELLED", message: expect.stringContaining("is being removed") });
    expect([wasUsed, harness.link.hasAttemptsOf("demo", "1.0.0")]).toEqual([true, false]);
  });

  it("[W755] only a worker that installs packages lists their frames in its register", () => {
    const register = (harness: LinkHarness) => harness.payload("control.register").payload_types;

    expect(register(readyLinkHarness())).not.toContain("biz.pkg.install");
    expect(register(readyLinkHarness({ features: ["pkg.install"] }))).toContain("biz.pkg.install");
  });
});
