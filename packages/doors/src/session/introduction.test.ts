import { Fault, type PkgCatalogPayload, readPayload } from "@astraflow/protocol";
import { afterEach, describe, expect, it } from "vitest";
import { handshake, register } from "../testing/fake-worker.ts";
import { type House, openHouse } from "../testing/house.ts";
import type { Bound } from "./greeting.ts";
import { Introduction } from "./introduction.ts";

const bound: Bound = {
  tenant: "default",
  instance: "w-1",
  worker: "default/w-1",
  dialect: "v2",
  label: { name: "painter", version: "1.0.0", hostname: "box" },
  greeting: "control.handshake-0",
  admitted: { tenant: "default", user: "ann", credential: "ann", thumbprint: null },
  boot: null,
};
const speaker = { tenant: "default", worker: "default/w-1", session: "s-1", dialect: "v2" } as const;
const heavy = { readme: "y".repeat(4 * 1024 * 1024) };
const asks = { ack: { request: true } };

const introduce = (more: Record<string, unknown>): Introduction => {
  const read = readPayload("v2", "control.register", register(more));
  if (read instanceof Fault) throw read;
  return new Introduction(read, null);
};

describe("what is kept of a worker's introduction", () => {
  it("[D94] is what the engine is told, not the manifests it was read from", () => {
    const { packages: _, ...rest } = register();
    const read = readPayload("v2", "control.register", {
      ...rest,
      manifests: [{ name: "a", version: "1.0.0", manifest: heavy }],
    });
    if (read instanceof Fault) throw read;
    const introduction = new Introduction(read, null);
    const [listed] = introduction.join(bound, "s-1").about.packages;
    introduction.catalog = {
      packages: [{ name: "b", version: "2.0.0", status: "installed", manifest: heavy }],
    } as PkgCatalogPayload;

    expect(listed).toEqual({ name: "a", version: "1.0.0", status: "installed" });
    expect(introduction.describe(bound, speaker).about.packages).toEqual([{ name: "b", version: "2.0.0", status: "installed" }]);
    expect(JSON.stringify(introduction).length).toBeLessThan(2_000);
  });

  it("[D94] holds the attempts it named until the join is stored, and not longer", () => {
    const running = Array.from({ length: 1_000 }, (_, n) => ({ task_id: `r.${n}`, fence: 1 }));
    const introduction = introduce({ running });

    expect(introduction.join(bound, "s-1").running).toHaveLength(1_000);
    introduction.joined();

    expect(JSON.stringify(introduction)).not.toContain("r.999");
    expect(introduction.rejoin(bound, "s-1", [])).toMatchObject({ running: null, resumed: { unacked: [] }, boot: "boot-1" });
  });
});

describe("a worker that says too much of itself", () => {
  let house: House;
  afterEach(() => house.stop());
  const tags = Object.fromEntries(Array.from({ length: 3_000 }, (_, n) => [`tag-${n}`, "t".repeat(100)]));
  const { capabilities } = register();

  it("[D94] is refused before the engine hears of it, and where it says so later", async () => {
    house = await openHouse();
    const early = await house.dial();
    early.say("control.handshake", handshake(), asks);
    early.say("control.register", register({ capabilities: { ...capabilities, tags } }), asks);
    expect((await early.next("control.reset")).payload).toMatchObject({ code: "E.FRAME.TOO_LARGE" });
    expect(house.engine.commands).toEqual([]);

    const late = await house.worker();
    late.say("control.register", register({ capabilities: { ...capabilities, tags } }), asks);
    expect((await late.next("control.reset")).payload).toMatchObject({ code: "E.FRAME.TOO_LARGE" });
    await late.closed;
    expect(house.engine.commands.map((command) => command.type)).toEqual(["worker.join", "worker.leave"]);
  });
});
