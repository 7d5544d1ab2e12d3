// Documents through the real driver: compare-and-set, all or nothing, repeats, the end of their time, and the audit beside them.

import type { Command, DocPut } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { buildChain, EngineHarness, type RefusedError } from "../harness/engine-harness.ts";

type Write = Extract<Command, { type: "docs.write" }>;

const writeDocuments = (puts: readonly DocPut[], changes: Partial<Write> = {}): Write => ({
  type: "docs.write",
  tenant: "t1",
  by: "ada",
  puts,
  ...changes,
});
const documentPut = (name: string, rev?: number, changes: Partial<DocPut> = {}): DocPut => ({
  collection: "view",
  name,
  body: JSON.stringify({ name, rev: rev ?? "any" }),
  ...(rev === undefined ? {} : { rev }),
  ...changes,
});

async function readDocuments(harness: EngineHarness, ...names: string[]) {
  return (await harness.store.page({ page: "doc", tenant: "t1", collection: "view", names })).items;
}

async function readAudits(harness: EngineHarness, tenant = "t1") {
  const page = await harness.store.events({ tenant, after: 0, limit: 1_000 });
  return page.items.filter((item) => item.type.startsWith("audit."));
}

const refusalOf = (answer: Promise<unknown>): Promise<RefusedError> =>
  answer.then(
    () => Promise.reject(new Error("taken")),
    (it) => it as RefusedError,
  );

describe("documents", () => {
  it("[E80] a document is written if the request names its present revision", async () => {
    const harness = await new EngineHarness().start();

    const made = await harness.ask(writeDocuments([documentPut("a", 0)]));
    const changed = await harness.ask(writeDocuments([documentPut("a", 1), documentPut("b")]));
    const stale = await refusalOf(harness.ask(writeDocuments([documentPut("a", 1)])));
    const doubled = await refusalOf(harness.ask(writeDocuments([documentPut("b", 0)])));

    expect(made).toEqual({ of: "docs", revs: [1], repeated: false });
    expect(changed).toEqual({ of: "docs", revs: [2, 1], repeated: false });
    expect(stale.fault).toMatchObject({ code: "E.CONFLICT", details: { collection: "view", name: "a", rev: 2, expected: 1 } });
    expect(doubled.fault).toMatchObject({ code: "E.CONFLICT", details: { name: "b", rev: 1, expected: 0 } });
  });

  it("[E80] a write of several documents is all or nothing, including those before the refused one", async () => {
    const harness = await new EngineHarness().start();
    await harness.ask(writeDocuments([documentPut("a", 0)]));

    const refused = await refusalOf(harness.ask(writeDocuments([documentPut("new", 0), documentPut("a", 7)])));

    expect(refused.code).toBe("E.CONFLICT");
    expect((await readDocuments(harness, "new", "a")).map((doc) => doc?.rev ?? null)).toEqual([null, 1]);
  });

  it("[E80] of two writes that name the same revision of a document the second is refused, even within one turn", async () => {
    const harness = await new EngineHarness().start();
    await harness.ask(writeDocuments([documentPut("a", 0)]));

    const [first, second] = harness.askAll([writeDocuments([documentPut("a", 1)]), writeDocuments([documentPut("a", 1)])]) as [
      Promise<unknown>,
      Promise<unknown>,
    ];

    expect(await first).toMatchObject({ revs: [2] });
    expect((await refusalOf(second)).code).toBe("E.CONFLICT");
  });

  it("[E80] a document removed and written again within one turn is new, and one that is not written again is gone", async () => {
    const harness = await new EngineHarness().start();
    await harness.ask(writeDocuments([documentPut("a", 0), documentPut("b", 0)]));
    const drop = (name: string) => ({ collection: "view", name, rev: 1 });

    await Promise.all(
      harness.askAll([writeDocuments([], { drops: [drop("a"), drop("b")] }), writeDocuments([documentPut("a", 0)])]),
    );

    expect((await readDocuments(harness, "a", "b")).map((doc) => doc?.rev ?? null)).toEqual([1, null]);
  });

  it("[E80] a document is removed if it exists and the request names its present revision", async () => {
    const harness = await new EngineHarness().start();
    await harness.ask(writeDocuments([documentPut("a", 0)]));
    const drop = (name: string, rev: number) => harness.ask(writeDocuments([], { drops: [{ collection: "view", name, rev }] }));

    const stale = await refusalOf(drop("a", 2));
    const absent = await refusalOf(drop("b", 1));
    await drop("a", 1);

    expect(stale.fault).toMatchObject({ code: "E.CONFLICT", details: { rev: 1, expected: 2 } });
    expect(absent.fault).toMatchObject({ code: "E.CONFLICT", details: { rev: 0, expected: 1 } });
    expect((await readDocuments(harness, "a"))[0]).toBeNull();
  });

  it("[E80] a document keeps sort key, search words and expiry that a later write does not mention", async () => {
    const harness = await new EngineHarness().start();
    await harness.ask(writeDocuments([documentPut("a", 0, { sort: "0007", terms: "Red Car", due: harness.now + 60_000 })]));

    await harness.ask(writeDocuments([documentPut("a", 1)]));

    expect((await readDocuments(harness, "a"))[0]).toMatchObject({
      rev: 2,
      sort: "0007",
      terms: "red car",
      due: harness.now + 60_000,
    });
  });

  it("[E81] a document write repeated under its key is answered as the first time; another request under the key is refused", async () => {
    const harness = await new EngineHarness().start();
    const ask = { key: "k", digest: "d" };

    const first = await harness.ask(writeDocuments([documentPut("a", 0), documentPut("b", 0)], { ask }));
    const again = await harness.ask(writeDocuments([documentPut("a", 0), documentPut("b", 0)], { ask }));
    const other = await refusalOf(harness.ask(writeDocuments([documentPut("a")], { ask: { key: "k", digest: "e" } })));

    expect(first).toEqual({ of: "docs", revs: [1, 1], repeated: false });
    expect(again).toEqual({ of: "docs", revs: [1, 1], repeated: true });
    expect(other.code).toBe("E.IDEMPOTENCY.MISMATCH");
    const run = await refusalOf(harness.ask(harness.startCommand(buildChain(1), { ask: "k" })));
    expect(run.code).toBe("E.IDEMPOTENCY.MISMATCH");
  });

  it("[E82] expired documents are removed; the engine wakes at their expiry", async () => {
    const harness = await new EngineHarness().start();
    await harness.ask(writeDocuments([documentPut("a", 0, { due: harness.now + 500 }), documentPut("b", 0)]));
    await harness.settle();

    expect(harness.wakeAt).toBe(harness.now + 500);
    await harness.advance(501);

    expect((await readDocuments(harness, "a", "b")).map((doc) => doc?.rev ?? null)).toEqual([null, 1]);
  });

  it("[E83] a document write is audited under its document, a refused one with its error code, and only if the document exists", async () => {
    const harness = await new EngineHarness().start();
    const audit = { action: "view.save", targetType: "view", target: "a", data: { size: 3 } };

    await harness.ask(writeDocuments([documentPut("a", 0)], { audit, corr: "req-1" }));
    await refusalOf(harness.ask(writeDocuments([documentPut("a", 9), documentPut("c", 0)], { audit, by: "bob" })));
    await refusalOf(harness.ask(writeDocuments([documentPut("ghost", 9)], { audit: { ...audit, target: "ghost" } })));

    expect((await readAudits(harness)).map(({ type, subject, data }) => ({ type, subject, data }))).toEqual([
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
    expect((await readDocuments(harness, "c"))[0]).toBeNull();
  });

  it("[E83] an audit entry without documents is recorded with the run it names, never with another tenant's run", async () => {
    const harness = await new EngineHarness().start();
    const run = await harness.startRun(buildChain(1));
    const audit = { action: "run.export", targetType: "run", target: run };

    await harness.ask(writeDocuments([], { audit }));
    await harness.ask(writeDocuments([], { audit, tenant: "t2" }));

    expect((await readAudits(harness)).map(({ subject }) => subject)).toEqual([`run/${run}`]);
    expect(await readAudits(harness, "t2")).toEqual([]);
  });
});
