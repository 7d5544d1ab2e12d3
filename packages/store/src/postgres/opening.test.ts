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
  ALTER TABLE astraflow.run DROP COLUMN label, DROP COLUMN source, DROP COLUMN about, DROP COLUMN marks, DROP COLUMN bindings, DROP COLUMN terms;
  ALTER TABLE astraflow.tenant DROP COLUMN removed`;

describe("opening a database", () => {
  it("[S40] the PostgreSQL store creates its tables once when several schedulers open an empty database at the same moment", async () => {
    const stores = ["a", "b", "c", "d"].map((replica) => ({ replica, store: createStore() }));
    const epochs = await Promise.all(stores.map(({ replica, store }) => store.open({ replica, cluster: "test" })));

    expect(epochs.map((one) => one.epoch)).toEqual([1, 1, 1, 1]);
    expect(await queryRows("SELECT version FROM astraflow.migration ORDER BY 1")).toEqual([[1], [2], [3], [4]]);
    expect(await queryRows("SELECT count(*) FROM pg_proc WHERE pronamespace = 'astraflow'::regnamespace")).toEqual([["2"]]);
  });

  it("[S40] the PostgreSQL store gives a replica opened several times at once a new epoch each time, and only the last may begin turns", async () => {
    const stores = [createStore(), createStore(), createStore()];
    const epochs = await Promise.all(stores.map((store) => store.open(me)));
    const nothing = { rows: [], claims: [], lists: [], due: 0, mail: 0, skip: [] };
    const begun = await Promise.allSettled(stores.map(async (store) => await (await store.begin(nothing)).abort()));

    const codes = begun.map((one) => (one.status === "fulfilled" ? "began" : (one.reason as { code: string }).code));
    const byEpoch = epochs.map((one, at) => `${one.epoch} ${codes[at]}`).sort((a, b) => a.localeCompare(b));
    expect(byEpoch).toEqual(["1 E.STORE.IN_USE", "2 E.STORE.IN_USE", "3 began"]);
  });

  it("[S31] the PostgreSQL store refuses a schema of a newer version and names both versions, for schedulers and readers", async () => {
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

  it("[S67] the PostgreSQL store upgrades a database from before workers had a condition, and keeps its workers with an empty one", async () => {
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

  it("[S84] the PostgreSQL store upgrades a database from before runs had names, and finds its runs by what is known of them", async () => {
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

  it("[S33] the PostgreSQL store refuses a schema of its name that it did not create, reading a database without a store, and a missing database", async () => {
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

  it("[S41] the PostgreSQL store refuses a database that answers commits before they are on disk, and names the setting", async () => {
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

  it("[S41] the PostgreSQL store refuses a server with fsync off", async () => {
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

  it("[S41] the PostgreSQL store refuses turns while synchronous_commit is weakened under it, and takes turns again once it is restored", async () => {
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

  it("[S42] the PostgreSQL store never shows the password of its address in an error, whatever fails on opening", async () => {
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

  it("[S22] the PostgreSQL store refuses a superseded replica already when it begins a turn, and settles nothing for it", async () => {
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

  it("[S17] the PostgreSQL store's clock runs faster under a time scale, and never falls below what was stored", async () => {
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
