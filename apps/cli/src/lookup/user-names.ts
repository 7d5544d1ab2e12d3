// The names of the users in the audit, as far as the caller may see them. Configured tokens have names as their ids.

import type { Client } from "../api/api-client.ts";
import { CliFailure, exitCodes } from "../output/cli-failure.ts";
import { readPages } from "./pages.ts";

/** Users read; any further user is shown by id. */
const usersMax = 1_000;

/** Name by id; only their own for callers who may not list users. */
export async function loadUserNames(client: Client): Promise<ReadonlyMap<string, string>> {
  const names = new Map<string, string>();
  try {
    const { items } = await readPages((cursor) => client.listUsers({ limit: 200, cursor }), usersMax);
    for (const { userId, username } of items) names.set(userId, username);
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
