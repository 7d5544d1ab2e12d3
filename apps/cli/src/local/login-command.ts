// `astra login` and `astra logout`: a token for a name and a password, kept for the next commands. The password comes from stdin or the
// environment, never from a flag, and is kept nowhere.

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
  { env, ...context }: CommandContext & { env: Env },
): Promise<CliExitCode> {
  const { client, terminal } = context;
  if (tokensFilePath(env) === null) throw usageFailure("There is no HOME to keep a token in; set ASTRA_TOKEN instead.");
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
  if (!context.json) terminal.info(`kept in ${file} until ${new Date(until).toISOString()}; next: astra runs list`);
  return exitCodes.ok;
}

const declinedBody = { error: "E.DECLINED", message: "Nothing was done." } as const;

/** From a pipe all of its first line; from a terminal without showing what is typed. */
async function readPassword(prompt: (text: string) => void): Promise<string> {
  if (!process.stdin.isTTY) {
    const line = readFileSync(0, "utf8").split(/\r?\n/)[0] ?? "";
    if (line === "") throw usageFailure("No password came on stdin; pipe it in, or set ASTRA_PASSWORD.");
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
      // Here the terminal hands Ctrl+C over as a key; it means what it means elsewhere.
      reader.once("SIGINT", () => reject(new CliFailure(exitCodes.interrupted, declinedBody)));
      reader.once("close", () => reject(usageFailure("No password was given.")));
    });
  } finally {
    reader.close();
    prompt("\n");
  }
}

export async function logOut({ env, ...context }: CommandContext & { env: Env }): Promise<CliExitCode> {
  const { client } = context;
  const wasGood = await client.logout().then(
    () => true,
    (cause: unknown) => {
      // What the scheduler does not take any more has ended by itself; what was kept of it is still to be forgotten.
      if (cause instanceof CliFailure && cause.body.error === "E.AUTH.INVALID_TOKEN") return false;
      throw cause;
    },
  );
  saveToken(new URL(client.url).origin, null, env);
  return printItem({ ok: true }, [wasGood ? "signed out" : `nobody was signed in at ${client.url}`], context);
}
