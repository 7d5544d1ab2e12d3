// The names of the users in the audit, as far as the caller may see them. Configured tokens have names as their ids.

import { allItems } from "@astraflow/client";
import type { Client } from "../api/api-client.ts";
import { CliFailure, exitCodes } from "../output/cli-failure.ts";

/** Users read; any further user is shown by id. */
const usersMax = 1_000;

/** Name by id; only their own for callers who may not list users. */
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

/** The id of the user with that name; any other text is taken as an id. */
export function resolveActorId(nameOrId: string, names: ReadonlyMap<string, string>): string {
  const lowerCase = nameOrId.toLowerCase();
  for (const [userId, username] of names) if (username.toLowerCase() === lowerCase) return userId;
  return nameOrId;
}
