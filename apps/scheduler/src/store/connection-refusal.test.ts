import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { Fault } from "@astraflow/protocol";
import { openPostgres } from "@astraflow/store";
import { expect, it } from "vitest";
import { explainConnectionRefusal, toUnavailableFault } from "./store-retry.ts";

const openFault = (error: Error) =>
  toUnavailableFault(
    new Fault("E.STORE.OPEN", "old words", { place: "db:5432/astra" }, new Fault("E.STORE.BUSY", "no answer", {}, error)),
  ) as Fault;
const errorWithCode = (code: string, more: object = {}) => Object.assign(new Error("its own words"), { code, ...more });

it("[O30] a PostgreSQL certificate that cannot be trusted is refused at once, with how to name its CA", () => {
  for (const code of ["DEPTH_ZERO_SELF_SIGNED_CERT", "SELF_SIGNED_CERT_IN_CHAIN", "UNABLE_TO_VERIFY_LEAF_SIGNATURE"])
    expect(openFault(errorWithCode(code))).toMatchObject({
      code: "E.STORE.OPEN",
      message: expect.stringMatching(/^db:5432\/astra presents a certificate .*sslmode=verify-full&sslrootcert=FILE.*no-verify/),
    });
  expect(openFault(errorWithCode("CERT_HAS_EXPIRED")).message).toMatch(/has expired; renew it/);
  expect(openFault(errorWithCode("ERR_TLS_CERT_ALTNAME_INVALID")).message).toMatch(/for another name/);
});

it("[O30] a PostgreSQL server that rejects user, password or database is not unreachable, and the error explains what to correct", () => {
  expect(openFault(errorWithCode("28P01", { severity: "FATAL" })).message).toMatch(
    /rejects this user and password; correct .*# as %23/,
  );
  expect(openFault(errorWithCode("3D000", { severity: "FATAL" })).message).toMatch(
    /has no such database; create it with createdb/,
  );
  expect(explainConnectionRefusal(errorWithCode("ECONNREFUSED"))).toBeNull();
  expect(explainConnectionRefusal("no error at all")).toBeNull();
});

it("[O30] a PostgreSQL server without TLS is refused at once if TLS was requested", async () => {
  const server = createServer((socket) => socket.once("data", () => socket.end("N")));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const store = openPostgres({ url: `postgres://u:p@127.0.0.1:${port}/d?sslmode=verify-full` });

  const refused = await store.open({ replica: "r", cluster: "c" }).catch((cause: unknown) => toUnavailableFault(cause));
  await store.close();
  server.close();

  expect(refused).toMatchObject({
    code: "E.STORE.OPEN",
    message: expect.stringMatching(/does not support TLS; .*sslmode=disable/),
  });
});
