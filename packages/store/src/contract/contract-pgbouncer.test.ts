import { afterAll } from "vitest";
import { describeStoreContract } from "./contract.ts";
import { createPostgresFixture } from "./fixtures/postgres-fixture.ts";
import { startPgbouncer } from "./servers/pgbouncer.ts";
import { startPostgres } from "./servers/postgres-server.ts";

const servers = startPostgres().then(async (server) => ({ server, pooler: await startPgbouncer(server) }));
afterAll(async () => {
  const { server, pooler } = await servers;
  await pooler.stop();
  await server.stop();
});

describeStoreContract("postgres behind pgbouncer in transaction mode, two schedulers", async () => {
  const { server, pooler } = await servers;
  return createPostgresFixture(server, { handlesMax: 2, urlOf: (database) => pooler.url(database) });
});
