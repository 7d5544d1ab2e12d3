import { afterAll } from "vitest";
import { startPgbouncer } from "./pgbouncer.ts";
import { startPostgres } from "./postgres-server.ts";
import { createPostgresFixture } from "./postgres-stage.ts";
import { describeStoreContract } from "./suite.ts";

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
