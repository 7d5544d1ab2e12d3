// Users behind the ids of the audit: their names where the caller may see them. Tokens of the configuration are called by their own names.

import { allItems } from "@astraflow/client";
import type { Client } from "../api/api-client.ts";
import { CliFailure, exitCodes } from "../output/cli-failure.ts";

/** Users looked through; who is not among them is shown by id. */
const usersMax = 1_000;

/** Name by id. Who may not list users knows at least themselves. */
export async function loadUserNames(client: Client): Promise<ReadonlyMap<string, string>> {
  const names = new Map<string, string>();
  try {
    for await (const { userId, username } of allItems((cursor) => client.listUsers({ limit: 200, cursor }))) {
      names.set(userId, username);
      if (names.size >= usersMax) break;
    }
  } catch (cause) {
    if (!(cause instanceof CliFailure) || cause.exitCode !== exitCodes.notAllowed) throw cause;
    const { userId, username } = await client.getOwnUser();
    names.set(userId, username);
  }
  return names;
}

/** The id of the user of that name; any other word is taken for an id. */
export function resolveActorId(nameOrId: string, names: ReadonlyMap<string, string>): string {
  const lowerCase = nameOrId.toLowerCase();
  for (const [userId, username] of names) if (username.toLowerCase() === lowerCase) return userId;
  return nameOrId;
}
