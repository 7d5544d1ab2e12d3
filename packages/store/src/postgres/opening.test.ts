import { inspect } from "node:util";
import { Client } from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { changeSet, readyChangeSet, runRow, taskRow, workerRow } from "../contract/fixtures/sample-rows.ts";
import { StoreClient } from "../contract/fixtures/store-client.ts";
import { type PostgresServer, startPostgres } from "../contract/servers/postgres-server.ts";
import { PostgresReader } from "./reader/reader.ts";
import { schemaVersion } from "./setup/replica-registration.ts";
import { openPostgres, type PostgresStore } from "./store.ts";

let server: PostgresServer;
let url = "";
const opened: PostgresStore[] = [];
const me = { replica: "a", cluster: "test" };

beforeAll(async () => {
  server = await startPostgres();
});
afterAll(async () => await server.stop());
beforeEach(async () => {
  url = await server.createDatabase();
});
afterEach(async () => {
  for (const store of opened.splice(0)) await store.close();
});

function createStore(address = url): PostgresStore {
  const store = openPostgres({ url: address });
  opened.push(store);
  return store;
}

const openClient = (store: PostgresStore, replica = "a") => StoreClient.open({ createHandle: () => store }, replica);

async function queryRows(text: string, address = url): Promise<unknown[][]> {
  const client = new Client({ connectionString: address });
  await client.connect();
  try {
    return (await client.query({ text, rowMode: "array" })).rows;
  } finally {
    await client.end();
  }
}

/** Back to the version before there were documents. */
const dropDocumentTablesSql = `DROP TABLE astraflow.doc, astraflow.chunk; ALTER TABLE astraflow.task DROP COLUMN state;
  ALTER TABLE astraflow.run DROP COLUMN label, DROP COLUMN source, DROP COLUMN about, DROP COLUMN marks, DROP COLUMN bindings, DROP COLUMN terms`;

describe("opening a database", () => {
  it("[S40] makes the tables once when several schedulers open an empty database at one moment", async () => {
    const stores = ["a", "b", "c", "d"].map((replica) => ({ replica, store: createStore() }));
    const epochs = await Promise.all(stores.map(({ replica, store }) => store.open({ replica, cluster: "test" })));

    expect(epochs.map((one) => one.epoch)).toEqual([1, 1, 1, 1]);
    expect(await queryRows("SELECT version FROM astraflow.migration ORDER BY 1")).toEqual([[1], [2], [3]]);
    expect(await queryRows("SELECT count(*) FROM pg_proc WHERE pronamespace = 'astraflow'::regnamespace")).toEqual([["2"]]);
  });

  it("[S40] gives a replica that is opened several times at one moment a different epoch each time, and lets only the last write", async () => {
    const stores = [createStore(), createStore(), createStore()];
    const epochs = await Promise.all(stores.map((store) => store.open(me)));
    const nothing = { rows: [], claims: [], lists: [], due: 0, mail: 0, skip: [] };
    const begun = await Promise.allSettled(stores.map(async (store) => await (await store.begin(nothing)).abort()));

    const codes = begun.map((one) => (one.status === "fulfilled" ? "began" : (one.reason as { code: string }).code));
    const byEpoch = epochs.map((one, at) => `${one.epoch} ${codes[at]}`).sort((a, b) => a.localeCompare(b));
    expect(byEpoch).toEqual(["1 E.STORE.IN_USE", "2 E.STORE.IN_USE", "3 began"]);
  });

  it("[S31] refuses a schema from a newer version and names both, for schedulers and readers", async () => {
    const store = createStore();
    await store.open(me);
    await store.close();
    await queryRows("INSERT INTO astraflow.migration (version) VALUES (99)");
    const reader = new PostgresReader({ url });

    await expect(createStore().open(me)).rejects.toMatchObject({
      code: "E.STORE.SCHEMA_NEWER",
      details: { schema: 99, known: schemaVersion },
    });
    await expect(reader.page({ page: "routes" })).rejects.toMatchObject({ code: "E.STORE.SCHEMA_NEWER" });
    await reader.close();
  });

  it("[S67] takes a database of the version before over: its workers are there, with nothing said of their condition", async () => {
    const before = await openClient(createStore());
    await before.write(changeSet({ puts: [workerRow("acme/w1")] }));
    await before.store.close();
    await queryRows(
      `${dropDocumentTablesSql}; ALTER TABLE astraflow.worker DROP COLUMN condition; DELETE FROM astraflow.migration WHERE version > 1`,
    );

    const after = await openClient(createStore());

    expect((await after.store.page({ page: "workers", tenant: "acme" })).items).toEqual([workerRow("acme/w1")]);
    await after.write(changeSet({ puts: [workerRow("acme/w1", { condition: '{"healthy":false}' })] }));
    expect((await after.store.page({ page: "workers", tenant: "acme" })).items).toMatchObject([
      { condition: '{"healthy":false}' },
    ]);
  });

  it("[S84] takes a database over in which runs had no names: they say nothing of themselves and are found by what is known", async () => {
    const before = await openClient(createStore());
    await before.write(changeSet({ puts: [runRow("r1", { client: "Nightly" }), taskRow("r1.0")] }));
    await before.store.close();
    await queryRows(`${dropDocumentTablesSql}; DELETE FROM astraflow.migration WHERE version > 2`);

    const after = await openClient(createStore());

    const found = async (search: string) =>
      (await after.store.page({ page: "runs", tenant: "acme", limit: 9, search })).items.map(({ id }) => id);
    expect(await after.read("run/r1", "task/r1.0")).toEqual([runRow("r1", { client: "Nightly" }), taskRow("r1.0")]);
    expect(await found("night")).toEqual(["r1"]);
    await after.write(changeSet({ puts: [runRow("r1", { client: "Nightly", label: "report" })] }));
    expect(await found("night report")).toEqual(["r1"]);
  });

  it("[S33] refuses a schema of our name that is not ours, a database without a store to read, and one that is not there", async () => {
    const reader = new PostgresReader({ url });
    await expect(reader.page({ page: "routes" })).rejects.toMatchObject({ code: "E.STORE.OPEN" });
    await reader.close();
    await expect(createStore(server.url("nowhere")).open(me)).rejects.toMatchObject({ code: "E.STORE.OPEN" });
    await queryRows("CREATE SCHEMA astraflow");
    await expect(createStore().open(me)).rejects.toMatchObject({
      code: "E.STORE.OPEN",
      message: expect.stringContaining("that AstraFlow did not create"),
    });
  });

  it("[S41] refuses a database whose commits are answered before they are on disk, and names the setting", async () => {
    for (const weak of ["off", "local", "remote_write"]) {
      await queryRows(`ALTER DATABASE "${new URL(url).pathname.slice(1)}" SET synchronous_commit = ${weak}`);
      await expect(createStore().open(me)).rejects.toMatchObject({
        code: "E.STORE.DURABILITY",
        details: { setting: "synchronous_commit", value: weak },
        message: expect.stringContaining("SET synchronous_commit = on"),
      });
    }
    await queryRows(`ALTER DATABASE "${new URL(url).pathname.slice(1)}" SET synchronous_commit = on`);
    await expect(createStore().open(me)).resolves.toMatchObject({ epoch: 1 });
  });

  it("[S41] refuses a server that does not sync at all", async () => {
    const careless = await startPostgres({ settings: { fsync: "off" } });
    try {
      await expect(createStore(careless.url()).open(me)).rejects.toMatchObject({
        code: "E.STORE.DURABILITY",
        details: { setting: "fsync", value: "off" },
      });
    } finally {
      await careless.stop();
    }
  });

  it("[S41] refuses a turn once the setting is weakened under an open store, and takes turns again once it is mended", async () => {
    const client = await openClient(createStore());
    await client.write(changeSet({ puts: [runRow("r1")] }));
    const tryUntil = async (isDone: (outcome: string) => boolean) => {
      for (let tries = 0; tries < 1_000; tries++) {
        const tx = await client.begin({ rows: ["run/r1"] });
        const answer = await client.commit(tx, [changeSet({ puts: [runRow("r1", { open: tries })] })]);
        if (isDone(answer.outcome)) return answer;
      }
      throw new Error("the server did not take the setting up");
    };
    try {
      await queryRows("ALTER SYSTEM SET synchronous_commit = off");
      await queryRows("SELECT pg_reload_conf()");

      expect(await tryUntil((outcome) => outcome !== "committed")).toMatchObject({
        outcome: "failed",
        fault: { code: "E.STORE.DURABILITY" },
      });
    } finally {
      await queryRows("ALTER SYSTEM RESET synchronous_commit");
      await queryRows("SELECT pg_reload_conf()");
    }
    expect(await tryUntil((outcome) => outcome === "committed")).toMatchObject({ outcome: "committed" });
  });

  it("[S42] never says the password of its address, whatever goes wrong", async () => {
    const secret = "hunter2-and-more";
    const wrong = new URL(url);
    wrong.password = secret;
    const away = new URL(wrong);
    away.port = "1";
    const addresses = [
      wrong.href,
      away.href,
      `postgres://astra:${secret}@127.0.0.1:port/x`,
      `mysql://astra:${secret}@127.0.0.1/x`,
    ];
    for (const address of addresses) {
      const attempt = async () => await openPostgres({ url: address }).open(me);
      const problem = await attempt().catch((error: unknown) => error);

      expect(problem).toMatchObject({ code: "E.STORE.OPEN" });
      expect(inspect(problem, { depth: 9, showHidden: true })).not.toContain(secret);
      expect(JSON.stringify(problem)).not.toContain(secret);
    }
  });

  it("[S22] refuses a zombie already when it begins, and settles nothing for it any more", async () => {
    let isBroken = false;
    const failpoint = (name: string) => {
      if (isBroken && name === "postgres.committing") throw new Error("the network is broken, says the test");
    };
    const store = openPostgres({ url, failpoint });
    opened.push(store);
    const zombie = await openClient(store);
    await zombie.write(readyChangeSet("r1", "l"));
    isBroken = true;
    const turn = zombie.nextTurn;
    const tx = await zombie.begin({ rows: ["run/r1"] });
    expect(await zombie.commit(tx, [changeSet({ puts: [runRow("r1")] })])).toEqual({ outcome: "unknown" });
    await openClient(createStore());

    await expect(zombie.begin()).rejects.toMatchObject({ code: "E.STORE.IN_USE", message: expect.stringContaining("epoch 2") });
    await expect(store.settle(turn)).rejects.toMatchObject({ code: "E.STORE.IN_USE" });
  });

  it("[S17] runs its clock as fast as it is told, from the store's birth on, and never below what was stored", async () => {
    const fast = openPostgres({ url, timeScale: 1_000 });
    opened.push(fast);
    const client = await openClient(fast);
    const look = async (by: StoreClient) => {
      const tx = await by.begin();
      await tx.abort();
      return tx.now;
    };
    const [before, wall] = [await look(client), Date.now()];
    await client.write(changeSet({ puts: [runRow("r1")] }));
    const after = await look(client);
    const slow = await openClient(createStore(), "b");

    expect(after - before).toBeGreaterThan(Date.now() - wall);
    expect(await look(slow)).toBeGreaterThan(before);
  });
});
