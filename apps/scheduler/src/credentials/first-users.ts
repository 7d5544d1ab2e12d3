// What a scheduler does at its start for people and their files: the first user of a tenant without any, and a folder without the remains
// of a crash. Neither keeps it from starting: the log says what could not be done.

import type { DoorEnvironment } from "@astraflow/doors";
import { type BlobStore, createFolderBlobStore, removeUnfinishedBlobs, type UserAccounts } from "@astraflow/services";
import type { Log } from "../platform/log.ts";
import type { AdminPassword } from "../settings/admin-passwords.ts";

/** Older than any write that can still be under way, also of another scheduler that shares the folder. */
const leftoverAgeMs = 86_400_000;

export async function createFirstUsers(
  users: Pick<UserAccounts, "found">,
  admins: readonly AdminPassword[],
  log: Log,
): Promise<void> {
  for (const { tenant, password } of admins) {
    try {
      if (await users.found(tenant, password)) log.warn({ audit: true, tenant, username: "admin" }, "people.founded");
    } catch (cause) {
      log.error({ tenant, problem: cause instanceof Error ? cause.message : String(cause) }, "people.unfounded");
    }
  }
}

export function openBlobFolder(
  folder: string,
  { outside: environment, log }: { readonly outside: DoorEnvironment; readonly log: Log },
): BlobStore {
  removeUnfinishedBlobs(folder, environment.clock.now() - leftoverAgeMs).then(
    (removed) => void (removed > 0 && log.info({ folder, removed }, "blobs.tidied")),
    (cause: unknown) => log.error({ folder, problem: String(cause) }, "blobs.untidied"),
  );
  return createFolderBlobStore({ folder, ids: environment.ids });
}
