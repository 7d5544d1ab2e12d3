import { afterAll } from "vitest";
import { startPgbouncer } from "./pgbouncer.ts";
import { startPostgres } from "./postgres-server.ts";
import { postgresStage } from "./postgres-stage.ts";
import { storeContract } from "./suite.ts";

const servers = startPostgres().then(async (server) => ({ server, pooler: await startPgbouncer(server) }));
afterAll(async () => {
  const { server, pooler } = await servers;
  await pooler.stop();
  await server.stop();
});

storeContract("postgres behind pgbouncer in transaction mode, two schedulers", async () => {
  const { server, pooler } = await servers;
  return postgresStage(server, { handles: 2, urlOf: (database) => pooler.url(database) });
});
