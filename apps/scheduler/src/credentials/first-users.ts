// Creates the first user of a tenant without any, and removes unfinished blobs of a crash. Failures do not prevent the start.

import { errorMessage } from "@astraflow/protocol";
import {
  type BlobStore,
  createFolderBlobStore,
  removeUnfinishedBlobs,
  type ServiceEnvironment,
  type UserAccounts,
} from "@astraflow/services";
import type { Log } from "../platform/log.ts";
import type { AdminPassword } from "../settings/secrets.ts";

/** Older than any write in progress, also of another scheduler that shares the folder. */
const leftoverAgeMs = 86_400_000;

export async function createFirstUsers(
  users: Pick<UserAccounts, "createFirstUser">,
  admins: readonly AdminPassword[],
  log: Log,
): Promise<void> {
  for (const { tenant, password } of admins) {
    try {
      if (await users.createFirstUser(tenant, password)) log.warn({ audit: true, tenant, username: "admin" }, "people.founded");
    } catch (cause) {
      log.error({ tenant, problem: errorMessage(cause) }, "people.unfounded");
    }
  }
}

export function openBlobFolder(folder: string, environment: ServiceEnvironment, log: Log): BlobStore {
  removeUnfinishedBlobs(folder, environment.clock.now() - leftoverAgeMs).then(
    (removed) => void (removed > 0 && log.info({ folder, removed }, "blobs.tidied")),
    (cause: unknown) => log.error({ folder, problem: String(cause) }, "blobs.untidied"),
  );
  return createFolderBlobStore({ folder, ids: environment.ids });
}
