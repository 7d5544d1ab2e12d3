// Dumps of a PostgreSQL store with the server's own tools, pg_dump and pg_restore, which must be on PATH.

import { spawn } from "node:child_process";
import { chmod } from "node:fs/promises";
import { Fault, fault } from "@astraflow/protocol";
import { inspectPostgres, type PostgresInspection } from "@astraflow/store";
import { createPasswordMask, describeStoreAddress, type StoreAddress } from "../settings/store-address.ts";
import { explainConnectionRefusal } from "./store-retry.ts";

type PostgresAddress = Extract<StoreAddress, { of: "postgres" }>;

const schemaName = "astraflow";
/** Of what a tool printed, the end: its reason is there. */
const printedCharsMax = 2_000;

/** One moment of the store; schedulers may go on working. */
export async function dumpPostgres(address: PostgresAddress, file: string): Promise<{ readonly schema: number }> {
  const { schema } = await inspect(address);
  if (schema === null)
    throw fault("E.STORE.OPEN", `${describeStoreAddress(address)} has no store of a scheduler yet; there is nothing to back up`);
  await runTool(address, "pg_dump", ["--format=custom", `--schema=${schemaName}`, "--no-owner", `--file=${file}`]);
  await chmod(file, 0o600);
  return { schema };
}

/** Into a database without a store, in one transaction: it has all of it or nothing. `beforehand`: what must be there before the store. */
export async function restorePostgres(address: PostgresAddress, file: string, beforehand: () => Promise<void>): Promise<void> {
  const { schema } = await inspect(address);
  if (schema !== null)
    throw fault(
      "E.CONFLICT",
      `${describeStoreAddress(address)} has a store already; stop its schedulers and drop the schema ${schemaName}, or restore into another database`,
    );
  await beforehand();
  await runTool(address, "pg_restore", ["--single-transaction", "--exit-on-error", "--no-owner", file]);
}

async function inspect(address: PostgresAddress): Promise<PostgresInspection> {
  try {
    return await inspectPostgres({ url: address.url });
  } catch (cause) {
    if (!(cause instanceof Fault)) throw cause;
    const refusal = explainConnectionRefusal(cause);
    const reason = refusal === null ? cause.message : `${refusal.problem}. ${refusal.fix}`;
    throw fault("E.STORE.OPEN", createPasswordMask(address)(`${describeStoreAddress(address)}: ${reason}`));
  }
}

/** The password is in the environment, which other users of the machine cannot read; arguments they can. */
async function runTool(address: PostgresAddress, tool: "pg_dump" | "pg_restore", args: readonly string[]): Promise<void> {
  const url = new URL(address.url);
  const password = decodeURIComponent(url.password);
  url.password = "";
  // A word of the driver that libpq does not know.
  if (url.searchParams.get("sslmode") === "no-verify") url.searchParams.set("sslmode", "require");
  const env = { ...process.env, ...(password !== "" && { PGPASSWORD: password }) };
  const child = spawn(tool, [`--dbname=${url.href}`, ...args], { env, stdio: ["ignore", "ignore", "pipe"] });
  let printed = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (printed = (printed + text).slice(-printedCharsMax)));
  const code = await new Promise<number | null>((settle, reject) => {
    child.once("close", settle);
    child.once("error", (cause: NodeJS.ErrnoException) =>
      reject(
        cause.code === "ENOENT"
          ? fault(
              "E.CONFIG.INVALID",
              `${tool} is not on PATH; install the client programs of PostgreSQL, such as postgresql-client`,
            )
          : cause,
      ),
    );
  });
  if (code === 0) return;
  const reason = createPasswordMask(address)(printed.trim());
  throw fault("E.STORE.OPEN", `${tool} for ${describeStoreAddress(address)} ended with ${code}: ${reason}`);
}
