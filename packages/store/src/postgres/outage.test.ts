import type { CommitOutcome, RunRow } from "@astraflow/engine";
import { Client } from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { changeSet, logEntry, readyChangeSet, runRow, taskRow } from "../contract/fixtures/sample-rows.ts";
import { StoreClient } from "../contract/fixtures/store-client.ts";
import { type PostgresServer, startPostgres } from "../contract/servers/postgres-server.ts";
import { startTcpProxy, type TcpProxy } from "../contract/servers/tcp-proxy.ts";
import { openPostgres, type PostgresOptions, type PostgresStore } from "./store.ts";

let server: PostgresServer;
let proxy: TcpProxy;
let url = "";
let admin: Client;
const opened: PostgresStore[] = [];

beforeAll(async () => {
  server = await startPostgres();
});
afterAll(async () => await server.stop());
beforeEach(async () => {
  url = await server.createDatabase();
  proxy = await startTcpProxy(server.port);
  admin = new Client({ connectionString: url });
  // A server that is restarted under it is part of these tests.
  admin.on("error", () => undefined);
  await admin.connect();
});
afterEach(async () => {
  for (const store of opened.splice(0)) await store.close();
  await admin.end();
  await proxy.stop();
});

async function openClient(replica = "a", options: Partial<PostgresOptions> = {}): Promise<StoreClient> {
  const store = openPostgres({ url, ...options });
  opened.push(store);
  return StoreClient.open({ createHandle: () => store }, replica);
}

const throughProxy = () => {
  const address = new URL(url);
  address.port = String(proxy.port);
  return { url: address.href, connections: 1 };
};

const runCreated = (run: string) => changeSet({ puts: [runRow(run)], logEntries: [logEntry("acme", `run/${run}`, ["made"])] });

/** Waits until the server shows that a session of ours is at this point. */
async function countSessions(where: string): Promise<number> {
  for (;;) {
    // Within a transaction the server shows the same snapshot every time, unless it is cleared.
    await admin.query("SELECT pg_stat_clear_snapshot()");
    const { rows } = await admin.query({
      text: `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND ${where}`,
      rowMode: "array",
    });
    if (rows[0] !== undefined) return Number(rows[0][0]);
  }
}

const inTurn = "state = 'idle in transaction'";
const inCommit = "wait_event_type = 'Lock' AND query LIKE '%turn_commit%'";

describe("a commit whose answer is lost", () => {
  it("[S11] a PostgreSQL commit whose answer is lost settles as committed if the server went on, and not before the server is done", async () => {
    const client = await openClient("a", throughProxy());
    await client.write(runCreated("r1"));
    const tx = await client.begin({ rows: ["run/r2"] });
    await admin.query("BEGIN; SELECT * FROM astraflow.tenant FOR UPDATE");
    const turn = client.nextTurn;
    const committing = client.commit(tx, [runCreated("r2")]);
    await countSessions(inCommit);
    proxy.dropReplies();
    proxy.closeClients();

    expect(await committing).toEqual({ outcome: "unknown" });
    await expect(client.begin()).rejects.toMatchObject({ code: "E.STORE.UNKNOWN_OUTCOME" });
    const settling = client.store.settle(turn);
    await countSessions("wait_event_type = 'Lock' AND query LIKE '%pg_advisory_xact_lock%'");
    await admin.query("COMMIT");
    expect(await settling).toBe("committed");
    expect(await client.read("run/r2")).toMatchObject([{ id: "r2" }]);
    expect((await client.readLog("acme")).map((entry) => entry.position)).toEqual([1, 2]);
  });

  it("[S11] a PostgreSQL commit whose answer is lost settles as absent if the server's session is ended in the middle of it", async () => {
    const client = await openClient("a", { connections: 1 });
    await client.write(runCreated("r1"));
    const tx = await client.begin({ rows: ["run/r2"] });
    await admin.query("BEGIN; SELECT * FROM astraflow.tenant FOR UPDATE");
    const turn = client.nextTurn;
    const committing = client.commit(tx, [runCreated("r2")]);
    await admin.query(`SELECT pg_terminate_backend(${await countSessions(inCommit)})`);

    expect(await committing).toEqual({ outcome: "unknown" });
    expect(await client.store.settle(turn)).toBe("absent");
    await admin.query("COMMIT");
    expect(await client.read("run/r2")).toEqual([null]);
    expect((await client.write(runCreated("r2"))).first).toEqual(new Map([["acme", 2]]));
  });

  it("[S11] a PostgreSQL commit whose answer is lost does not stop turns on other connections", async () => {
    const client = await openClient("a", { connections: 2, failpoint: failOnce("postgres.committing") });
    const [first, second] = [await client.begin({ rows: ["run/r1"] }), await client.begin({ rows: ["run/r2"] })];
    expect(await client.commit(first, [runCreated("r1")])).toEqual({ outcome: "unknown" });

    expect((await client.commit(second, [runCreated("r2")])).outcome).toBe("committed");
    await client.write(runCreated("r3"));
    expect([await client.store.settle(1), await client.store.settle(2), await client.store.settle(3)]).toEqual([
      "absent",
      "committed",
      "committed",
    ]);
  });
});

function failOnce(step: string): (name: string) => void {
  let isBroken = true;
  return (name) => {
    if (name !== step || !isBroken) return;
    isBroken = false;
    throw new Error("the network is broken, says the test");
  };
}

/** Whether the loss was noticed before the commit was sent or after it: what became of the turn. */
async function settledOutcomeOf(client: StoreClient, turn: number, answer: CommitOutcome): Promise<string> {
  if (answer.outcome === "unknown") return await client.store.settle(turn);
  return answer.outcome === "failed" && answer.unit === undefined && answer.fault.isRetryable ? "absent" : JSON.stringify(answer);
}

describe("a server that goes away", () => {
  for (const how of ["fast", "immediate"] as const)
    it(`[S43] the PostgreSQL store loses only the turn in progress over a server restart (${how}), and takes turns again without being reopened`, async () => {
      const [a, b] = [await openClient("a"), await openClient("b")];
      await a.write(runCreated("r1"));
      await b.write(runCreated("r2"));
      const turn = a.nextTurn;
      const tx = await a.begin({ rows: ["run/r1"] });
      await server.restart(how);

      const answer = await a.commit(tx, [changeSet({ puts: [runRow("r1", { open: 9 })] })]);
      expect(await settledOutcomeOf(a, turn, answer)).toBe("absent");
      expect(await b.read("run/r1", "run/r2")).toMatchObject([{ open: 1 }, { id: "r2" }]);
      await a.write(changeSet({ puts: [runRow("r1", { open: 10 })] }));
      expect((await b.readOne<RunRow>("run/r1")).open).toBe(10);
      expect((await b.readLog("acme")).map((entry) => entry.position)).toEqual([1, 2]);
    });

  it("[S43] the PostgreSQL store answers busy while the server is down, and works again as soon as it is back", async () => {
    const client = await openClient();
    await client.write(runCreated("r1"));
    await server.halt("fast");
    const busy = { code: "E.STORE.BUSY", isRetryable: true };
    try {
      await expect(client.begin()).rejects.toMatchObject(busy);
      await expect(client.begin()).rejects.toMatchObject(busy);
      await expect(client.store.page({ page: "routes" })).rejects.toMatchObject(busy);
    } finally {
      await server.start();
    }

    await client.write(runCreated("r2"));
    expect((await client.store.events({ tenant: "acme", after: 0, limit: 9 })).head).toBe(2);
  });

  it("[S43] a PostgreSQL turn whose session ended before its commit was sent fails and releases its roots, and later turns succeed", async () => {
    const [a, b] = [await openClient("a", { connections: 1 }), await openClient("b")];
    await a.write(runCreated("r1"));
    const turn = a.nextTurn;
    const tx = await a.begin({ rows: ["run/r1"] });
    await admin.query(`SELECT pg_terminate_backend(${await countSessions(inTurn)})`);
    for (let row = await b.read("run/r1"); row[0] === "busy"; ) row = await b.read("run/r1");

    const answer = await a.commit(tx, [changeSet({ puts: [runRow("r1", { open: 9 })] })]);
    expect(await settledOutcomeOf(a, turn, answer)).toBe("absent");
    await a.write(changeSet({ puts: [runRow("r1", { open: 3 })] }));
    expect((await b.readOne<RunRow>("run/r1")).open).toBe(3);
  });

  it("[S43] the PostgreSQL store ends a turn that its scheduler has abandoned, so that its roots are free again", async () => {
    const [a, b] = [await openClient("a"), await openClient("b")];
    await a.write(runCreated("r1"));
    const forgotten = await a.begin({ rows: ["run/r1"] });
    for (let row = await b.read("run/r1"); row[0] === "busy"; ) row = await b.read("run/r1");

    const answer = await a.commit(forgotten, [changeSet({ puts: [runRow("r1", { open: 9 })] })]);
    expect(answer).toMatchObject({ outcome: "failed", fault: { code: "E.STORE.BUSY" } });
  });

  it("[S43] a PostgreSQL turn whose session ended before it loads more rows fails as busy, and its connection slot is free again", async () => {
    const client = await openClient("a", { connections: 1 });
    await client.write(changeSet({ puts: [runRow("r1"), taskRow("r1.0")] }));
    const tx = await client.begin({ rows: ["run/r1"] });
    await admin.query(`SELECT pg_terminate_backend(${await countSessions(inTurn)})`);

    await expect(tx.loadMore(["task/r1.0"], [])).rejects.toMatchObject({ code: "E.STORE.BUSY" });
    await tx.abort();
    expect(await client.read("task/r1.0")).toMatchObject([{ id: "r1.0" }]);
  });
});

describe("turns side by side", () => {
  it("[S9] the PostgreSQL store takes as many turns at a time as it has connections, and the next turn waits for one", async () => {
    const client = await openClient("a", { connections: 2 });
    const first = await client.begin({ rows: ["run/r1"] });
    const second = await client.begin({ rows: ["run/r2"] });
    let isThirdBegun = false;
    const third = client.begin({ rows: ["run/r1"] }).then((tx) => {
      isThirdBegun = true;
      return tx;
    });
    await second.loadMore(["run/r3"], []);
    expect(isThirdBegun).toBe(false);
    await first.abort();

    expect((await third).row("run", "r1")).toBeNull();
    await (await third).abort();
    await second.abort();
  });

  it("[S44] of two PostgreSQL turns that create the same run at the same moment, one is committed and the other fails as busy", async () => {
    const [a, b] = [await openClient("a"), await openClient("b")];
    const many = Array.from({ length: 100 }, (_, at) => `run/x${at}` as const);
    const [ours, theirs] = [await a.begin({ rows: many }), await b.begin({ rows: many })];
    expect([ours.row("run", "x7"), theirs.row("run", "x7")]).toEqual([null, null]);
    const born = (client: string) => changeSet({ puts: [runRow("x7", { client })], inserted: new Set(["run/x7"] as const) });

    expect((await a.commit(ours, [born("a")])).outcome).toBe("committed");
    const answer = await b.commit(theirs, [born("b")]);
    expect(answer).toMatchObject({ outcome: "failed", fault: { code: "E.STORE.BUSY" } });
    expect(answer).not.toHaveProperty("unit");
    expect((await b.readOne<RunRow>("run/x7")).client).toBe("a");
  });

  it("[S44] the PostgreSQL store refuses tasks of a run that does not exist, where a turn requests too many new names to lock them", async () => {
    const client = await openClient();
    const many = Array.from({ length: 100 }, (_, at) => `run/x${at}` as const);
    const tx = await client.begin({ rows: many });

    expect(await client.commit(tx, [runCreated("x1"), changeSet({ puts: [taskRow("x7.0")] })])).toMatchObject({
      outcome: "failed",
      unit: 1,
    });
  });

  it("[S44] the PostgreSQL store answers busy for a name that another turn is about to create", async () => {
    const [a, b] = [await openClient("a"), await openClient("b")];
    const keys = ["run/new", "worker/acme/new", "key/acme/new", "ask/acme/new", "route/new", "workflow/acme/new"] as const;
    const holder = await a.begin({ rows: keys });

    expect(await b.read(...keys)).toEqual(keys.map(() => "busy"));
    await holder.abort();
    expect(await b.read(...keys)).toEqual(keys.map(() => null));
  });

  it("[S9] the PostgreSQL store lets two turns read existing routes and workflows at once", async () => {
    const [a, b] = [await openClient("a"), await openClient("b")];
    const puts = [
      { kind: "route", id: "x", tenant: "acme", needs: "{}" },
      { kind: "workflow", id: "acme/w", body: "{}" },
    ] as const;
    await a.write(changeSet({ puts }));
    const holder = await a.begin({ rows: ["route/x", "workflow/acme/w"] });

    expect(await b.read("route/x", "workflow/acme/w")).toEqual(puts);
    await holder.abort();
  });
});

describe("a turn that the server gives up for another's sake", () => {
  it("[S49] a PostgreSQL turn that the server ends in a deadlock fails as busy, writes nothing, and succeeds when retried", async () => {
    const client = await openClient();
    await client.write(runCreated("r1"));
    const tx = await client.begin({ rows: ["run/r1", "run/r2"] });
    // Somebody outside holds the tenant, which our commit takes last, and then wants the run that our turn holds.
    await admin.query("SET deadlock_timeout = '1min'; BEGIN; SELECT * FROM astraflow.tenant FOR UPDATE");
    const committing = client.commit(tx, [runCreated("r2")]);
    await countSessions(inCommit);
    const wanting = admin.query("SELECT * FROM astraflow.run WHERE id = 'r1' FOR UPDATE");

    expect(await committing).toMatchObject({ outcome: "failed", fault: { code: "E.STORE.BUSY", details: { state: "40P01" } } });

    await wanting;
    await admin.query("ROLLBACK");
    expect(await client.read("run/r2")).toEqual([null]);
    await client.write(runCreated("r2"));
    expect((await client.readLog("acme")).map((entry) => entry.position)).toEqual([1, 2]);
  });

  it("[S49] a PostgreSQL turn that ends in a serialization failure fails as busy, names no change set, and succeeds when retried", async () => {
    const client = await openClient();
    await admin.query(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40001', MESSAGE = 'could not serialize access'; END $$;
      CREATE TRIGGER refuse BEFORE INSERT ON astraflow.run FOR EACH ROW EXECUTE FUNCTION refuse()`);
    const tx = await client.begin({ rows: ["run/r1"] });

    const result = await client.commit(tx, [runCreated("r1")]);

    expect(result).toMatchObject({ outcome: "failed", fault: { code: "E.STORE.BUSY", details: { state: "40001" } } });
    expect(result).not.toHaveProperty("unit");
    await admin.query("DROP TRIGGER refuse ON astraflow.run");
    await client.write(runCreated("r1"));
    expect((await client.readLog("acme")).map((entry) => entry.position)).toEqual([1]);
  });
});

describe("hints", () => {
  it("[S45] PostgreSQL hints inform the other schedulers of queues, mail and facts after the commit, and the writer of facts at once", async () => {
    const [a, b] = [await openClient("a"), await openClient("b")];
    const own: string[] = [];
    a.store.onHint((hint) => own.push(hint.type));
    const received = Promise.withResolvers<string[]>();
    const others: string[] = [];
    b.store.onHint((hint) => {
      others.push(hint.type === "line" ? `line ${hint.line}` : hint.type === "log" ? `log ${hint.tenant}` : "mail");
      if (others.length === 3) received.resolve(others);
    });
    const ready = readyChangeSet("r1", 'r|it\'s "quoted"');
    await a.write({
      ...ready,
      logEntries: [logEntry("acme", "run/r1", ["made"])],
      mail: [{ replica: "b", epoch: 1, id: "m", body: "" }],
    });

    expect(own).toEqual(["log"]);
    expect((await received.promise).sort()).toEqual(['line r|it\'s "quoted"', "log acme", "mail"]);
  });

  it("[S45] PostgreSQL hints resume after their connection was lost, and the listener gets a hint to check what it missed", async () => {
    const [a, b] = [await openClient("a"), await openClient("b")];
    const look = Promise.withResolvers<void>();
    const batch = Promise.withResolvers<void>();
    b.store.onHint((hint) => (hint.type === "mail" ? look : batch).resolve());
    await admin.query(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()",
    );
    await look.promise;
    let hasHint = false;
    void batch.promise.then(() => {
      hasHint = true;
    });
    for (let at = 0; !hasHint && at < 1_000; at++) await a.write(runCreated(`r${at}`));

    expect(hasHint).toBe(true);
  });
});
