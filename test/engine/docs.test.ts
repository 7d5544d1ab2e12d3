// Documents through the real driver: compare-and-set, all or nothing, repeats, the end of their time, and the audit beside them.

import type { Command, DocPut } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { chain, Harness, type Refused } from "./harness.ts";

type Write = Extract<Command, { type: "docs.write" }>;

const write = (puts: readonly DocPut[], changes: Partial<Write> = {}): Write => ({
  type: "docs.write",
  tenant: "t1",
  by: "ada",
  puts,
  ...changes,
});
const put = (name: string, rev?: number, changes: Partial<DocPut> = {}): DocPut => ({
  collection: "view",
  name,
  body: JSON.stringify({ name, rev: rev ?? "any" }),
  ...(rev === undefined ? {} : { rev }),
  ...changes,
});

async function docs(world: Harness, ...names: string[]) {
  return (await world.store.page({ page: "doc", tenant: "t1", collection: "view", names })).items;
}

async function audits(world: Harness, tenant = "t1") {
  const page = await world.store.events({ tenant, after: 0, limit: 1_000 });
  return page.items.filter((item) => item.type.startsWith("audit."));
}

const refusal = (answer: Promise<unknown>): Promise<Refused> =>
  answer.then(
    () => Promise.reject(new Error("taken")),
    (it) => it as Refused,
  );

describe("documents", () => {
  it("[E80] are written by whoever names the revision that is there", async () => {
    const world = await new Harness().start();

    const made = await world.ask(write([put("a", 0)]));
    const changed = await world.ask(write([put("a", 1), put("b")]));
    const stale = await refusal(world.ask(write([put("a", 1)])));
    const doubled = await refusal(world.ask(write([put("b", 0)])));

    expect(made).toEqual({ of: "docs", revs: [1], repeated: false });
    expect(changed).toEqual({ of: "docs", revs: [2, 1], repeated: false });
    expect(stale.fault).toMatchObject({ code: "E.CONFLICT", details: { collection: "view", name: "a", rev: 2, expected: 1 } });
    expect(doubled.fault).toMatchObject({ code: "E.CONFLICT", details: { name: "b", rev: 1, expected: 0 } });
  });

  it("[E80] are written all or not at all, also those before the one that is refused", async () => {
    const world = await new Harness().start();
    await world.ask(write([put("a", 0)]));

    const refused = await refusal(world.ask(write([put("new", 0), put("a", 7)])));

    expect(refused.code).toBe("E.CONFLICT");
    expect((await docs(world, "new", "a")).map((doc) => doc?.rev ?? null)).toEqual([null, 1]);
  });

  it("[E80] two that were read at one revision: the second is refused, also within one turn", async () => {
    const world = await new Harness().start();
    await world.ask(write([put("a", 0)]));

    const [first, second] = world.askAll([write([put("a", 1)]), write([put("a", 1)])]) as [Promise<unknown>, Promise<unknown>];

    expect(await first).toMatchObject({ revs: [2] });
    expect((await refusal(second)).code).toBe("E.CONFLICT");
  });

  it("[E80] removed and made anew within one turn are new, and gone where nobody makes them again", async () => {
    const world = await new Harness().start();
    await world.ask(write([put("a", 0), put("b", 0)]));
    const drop = (name: string) => ({ collection: "view", name, rev: 1 });

    await Promise.all(world.askAll([write([], { drops: [drop("a"), drop("b")] }), write([put("a", 0)])]));

    expect((await docs(world, "a", "b")).map((doc) => doc?.rev ?? null)).toEqual([1, null]);
  });

  it("[E80] are removed by whoever names the revision that is there, and only what is there", async () => {
    const world = await new Harness().start();
    await world.ask(write([put("a", 0)]));
    const drop = (name: string, rev: number) => world.ask(write([], { drops: [{ collection: "view", name, rev }] }));

    const stale = await refusal(drop("a", 2));
    const absent = await refusal(drop("b", 1));
    await drop("a", 1);

    expect(stale.fault).toMatchObject({ code: "E.CONFLICT", details: { rev: 1, expected: 2 } });
    expect(absent.fault).toMatchObject({ code: "E.CONFLICT", details: { rev: 0, expected: 1 } });
    expect((await docs(world, "a"))[0]).toBeNull();
  });

  it("[E80] keep their place, words and time where a later write does not mention them", async () => {
    const world = await new Harness().start();
    await world.ask(write([put("a", 0, { sort: "0007", terms: "Red Car", due: world.now + 60_000 })]));

    await world.ask(write([put("a", 1)]));

    expect((await docs(world, "a"))[0]).toMatchObject({ rev: 2, sort: "0007", terms: "red car", due: world.now + 60_000 });
  });

  it("[E81] a repeat under its key is answered as the first was, another request under the key is refused", async () => {
    const world = await new Harness().start();
    const ask = { key: "k", digest: "d" };

    const first = await world.ask(write([put("a", 0), put("b", 0)], { ask }));
    const again = await world.ask(write([put("a", 0), put("b", 0)], { ask }));
    const other = await refusal(world.ask(write([put("a")], { ask: { key: "k", digest: "e" } })));

    expect(first).toEqual({ of: "docs", revs: [1, 1], repeated: false });
    expect(again).toEqual({ of: "docs", revs: [1, 1], repeated: true });
    expect(other.code).toBe("E.IDEMPOTENCY.MISMATCH");
    const run = await refusal(world.ask(world.order(chain(1), { ask: "k" })));
    expect(run.code).toBe("E.IDEMPOTENCY.MISMATCH");
  });

  it("[E82] whose time is over are gone, and the engine wakes for it", async () => {
    const world = await new Harness().start();
    await world.ask(write([put("a", 0, { due: world.now + 500 }), put("b", 0)]));
    await world.settle();

    expect(world.wakeAt).toBe(world.now + 500);
    await world.advance(501);

    expect((await docs(world, "a", "b")).map((doc) => doc?.rev ?? null)).toEqual([null, 1]);
  });

  it("[E83] are audited in their own unit, refused ones with their code, and only where the thing exists", async () => {
    const world = await new Harness().start();
    const audit = { action: "view.save", targetType: "view", target: "a", data: { size: 3 } };

    await world.ask(write([put("a", 0)], { audit, corr: "req-1" }));
    await refusal(world.ask(write([put("a", 9), put("c", 0)], { audit, by: "bob" })));
    await refusal(world.ask(write([put("ghost", 9)], { audit: { ...audit, target: "ghost" } })));

    expect((await audits(world)).map(({ type, subject, data }) => ({ type, subject, data }))).toEqual([
      {
        type: "audit.view.save",
        subject: "doc/t1/view/a",
        data: { size: 3, by: "ada", corr: "req-1", target: "a", targetType: "view", outcome: "ok" },
      },
      {
        type: "audit.view.save",
        subject: "doc/t1/view/a",
        data: { size: 3, by: "bob", target: "a", targetType: "view", outcome: "E.CONFLICT" },
      },
    ]);
    expect((await docs(world, "c"))[0]).toBeNull();
  });

  it("[E83] an entry without documents stands with the run it names, never with another tenant's", async () => {
    const world = await new Harness().start();
    const run = await world.run(chain(1));
    const audit = { action: "run.export", targetType: "run", target: run };

    await world.ask(write([], { audit }));
    await world.ask(write([], { audit, tenant: "t2" }));

    expect((await audits(world)).map(({ subject }) => subject)).toEqual([`run/${run}`]);
    expect(await audits(world, "t2")).toEqual([]);
  });
});
