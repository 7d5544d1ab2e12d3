// `astra login` and `astra logout`: gets a token for a name and a password and saves it for the next commands. The password is read from
// stdin or the environment, never from a flag, and is not saved.

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { type CommandContext, printItem } from "../api/command-context.ts";
import { saveToken, tokensFilePath } from "../api/saved-tokens.ts";
import { type CliExitCode, CliFailure, exitCodes, usageFailure } from "../output/cli-failure.ts";
import { stripControlCharacters } from "../output/terminal.ts";

type Env = Readonly<Record<string, string | undefined>>;

export async function logIn(
  username: string,
  flags: { tenant?: string },
  env: Env,
  context: CommandContext,
): Promise<CliExitCode> {
  const { client, terminal } = context;
  if (tokensFilePath(env) === null) throw usageFailure("HOME is not set, so no token can be saved; set ASTRA_TOKEN instead.");
  const password = env["ASTRA_PASSWORD"] ?? (await readPassword(terminal.error));
  const { tenant } = flags;
  const answer = await client.login({ body: { username, password, ...(tenant !== undefined && { tenant }) } });
  const until = Date.now() + answer.expiresIn * 1_000;
  const file = saveToken(new URL(client.url).origin, { token: answer.accessToken, username, until }, env);
  const { user, expiresIn } = answer;
  // The token itself is not printed: terminals are recorded and scrolled back.
  printItem(
    { user, expiresIn, keptIn: file },
    [`signed in as ${stripControlCharacters(user.displayName)} (${user.roles.join(", ") || "no role"})`],
    context,
  );
  if (!context.json) terminal.info(`token saved in ${file} until ${new Date(until).toISOString()}; next: astra runs list`);
  return exitCodes.ok;
}

/** Reads the first line of a pipe, or a line of the terminal without echoing it. */
async function readPassword(prompt: (text: string) => void): Promise<string> {
  if (!process.stdin.isTTY) {
    const line = readFileSync(0, "utf8").split(/\r?\n/)[0] ?? "";
    if (line === "") throw usageFailure("stdin holds no password; pipe it in, or set ASTRA_PASSWORD.");
    return line;
  }
  prompt("password: ");
  const silent = {
    write: () => true,
    on: () => silent,
    once: () => silent,
    emit: () => true,
    removeListener: () => silent,
    end: () => silent,
  };
  const reader = createInterface({ input: process.stdin, output: silent as unknown as NodeJS.WritableStream, terminal: true });
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

export async function logOut(env: Env, context: CommandContext): Promise<CliExitCode> {
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
  return printItem({ ok: true }, [wasGood ? "signed out" : `You were not signed in at ${client.url}`], context);
}
