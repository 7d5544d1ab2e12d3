/** Groups of tests that several bugs name. Those that start a database server are named by bugs of that server only: they are slow. */
import { listFiles, repositoryRoot } from "../../../scripts/repository-files.ts";

const listTests = (folders: readonly string[]): string[] =>
  folders
    .flatMap((folder) => listFiles(repositoryRoot, folder))
    .filter((path) => path.endsWith(".test.ts") && !/postgres|pgbouncer/.test(path));

export const engineTests = listTests([
  "packages/engine/src",
  "test/engine/runs",
  "test/engine/workers",
  "test/engine/turns",
  "test/engine/placement",
]);

/** Without the searches that take half a minute: what only they find is worth a small test of its own. */
export const sessionTests = listTests(["packages/session/src"]).filter((path) => !/exhaustive|fuzz/.test(path));
export const maskTests = listTests(["packages/runtime/src/handlers"]).filter((path) => !path.includes("package-loader"));
export const runtimeTests = listTests([
  "packages/runtime/src/attempts",
  "packages/runtime/src/outbox",
  "packages/runtime/src/scheduler-link",
]).filter((path) => !path.includes("websocket-dialer"));
export const storeCommonTests = listTests(["packages/store/src/common"]);
export const storeTests = listTests(["packages/store/src"]).filter((path) => !path.endsWith("kill.test.ts"));
export const postgresTests = ["packages/store/src/contract/contract-postgres.test.ts"];
export const servicesTests = listTests(["packages/services/src", "packages/doors/src/rest/resources"]);
export const userTests = listTests([
  "packages/services/src/users",
  "packages/services/src/identity",
  "packages/doors/src/rest/users",
]);
export const idempotencyTests = [
  "test/engine/rest/every-route-idempotency-keys.test.ts",
  "test/engine/rest/every-field-idempotency-keys.test.ts",
];
export const restDoorTests = listTests(["packages/doors/src/rest", "packages/doors/src/auth"]);
export const sessionDoorTests = listTests(["packages/doors/src/session", "packages/doors/src/auth"]);
export const protocolTests = listTests(["packages/protocol/src"]).filter((path) => !path.endsWith("frame-mutation.test.ts"));
export const graphTests = listTests(["packages/graph/src"]);
export const clientTests = listTests(["packages/client/src"]);
export const cliTests = listTests(["apps/cli/src"]);
export const checkerTests = listTests(["packages/sim/src/checkers"]);
