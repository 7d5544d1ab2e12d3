// `astra login` and `astra logout`. The password is read from stdin or the environment, never from a flag, and is not saved.

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { Writable } from "node:stream";
import { omitUndefined } from "@astraflow/protocol";
import { type Env, saveToken, tokensFilePath } from "../api/api-endpoint.ts";
import { type CommandContext, printItem, type TextInput } from "../api/command-context.ts";
import { CliFailure, type ExitCode, exitCodes, usageFailure } from "../output/cli-failure.ts";

export async function logIn(
  context: CommandContext,
  { username, tenant }: TextInput<"username", "tenant">,
  env: Env,
): Promise<ExitCode> {
  const { client, terminal } = context;
  if (tokensFilePath(env) === null) throw usageFailure("HOME is not set, so no token can be saved; set ASTRA_TOKEN instead.");
  const password = env["ASTRA_PASSWORD"] ?? (await readPassword((text) => terminal.error(text)));
  const body = { username, password, ...omitUndefined({ tenant }) };
  const { user, expiresIn, accessToken } = await client.login({ body }).catch((cause: unknown) => {
    // Often it is the right password at another scheduler.
    if (!(cause instanceof CliFailure) || cause.exitCode !== exitCodes.notAllowed) throw cause;
    throw new CliFailure(
      cause.exitCode,
      { ...cause.body, message: `${client.url}: ${cause.body.message}` },
      cause.suggestedCommand,
    );
  });
  const until = Date.now() + expiresIn * 1_000;
  const file = saveToken(new URL(client.url).origin, { token: accessToken, username, until }, env);
  // The token itself is not printed: terminals are recorded and scrolled back.
  return printItem(
    context,
    { user, expiresIn, keptIn: file },
    `signed in as ${user.displayName} (${user.roles.join(", ") || "no role"})`,
    `token saved in ${file} until ${new Date(until).toISOString()}; next: astra runs list`,
  );
}

/** Reads the first line of a pipe, or a line of the terminal without echoing it. */
async function readPassword(prompt: (text: string) => void): Promise<string> {
  if (!process.stdin.isTTY) {
    const line = readFileSync(0, "utf8").split(/\r?\n/)[0] ?? "";
    if (line === "") throw usageFailure("stdin holds no password; pipe it in, or set ASTRA_PASSWORD.");
    return line;
  }
  prompt("password: ");
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() });
  const reader = createInterface({ input: process.stdin, output: silent, terminal: true });
  try {
    return await new Promise<string>((resolve, reject) => {
      reader.once("line", resolve);
      // In this mode the terminal passes Ctrl+C on as a key.
      reader.once("SIGINT", () =>
        reject(new CliFailure(exitCodes.interrupted, { error: "E.DECLINED", message: "Cancelled; nothing was changed." })),
      );
      reader.once("close", () => reject(usageFailure("No password was given.")));
    });
  } finally {
    reader.close();
    prompt("\n");
  }
}

export async function logOut(context: CommandContext, env: Env): Promise<ExitCode> {
  const { client } = context;
  const wasGood = await client.logout().then(
    () => true,
    (cause: unknown) => {
      // The token has expired or was revoked; the saved copy is still to be deleted.
      if (cause instanceof CliFailure && cause.body.error === "E.AUTH.INVALID_TOKEN") return false;
      throw cause;
    },
  );
  saveToken(new URL(client.url).origin, null, env);
  return printItem(context, { ok: true }, wasGood ? "signed out" : `You were not signed in at ${client.url}`);
}
