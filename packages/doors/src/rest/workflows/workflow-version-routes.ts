// The routes about published versions.

import { fault, readPublishVersionRequest } from "@astraflow/protocol";
import { presentVersion, publishVersion, type WorkflowServices } from "@astraflow/services";
import { replayedHeader } from "../requests/idempotency.ts";
import { type RouteHandler, readOptionalRequest, readPageLimit } from "../requests/rest-call.ts";
import { workflowIdempotencyKeyOf, workflowIdOf } from "./workflow-request-readers.ts";

type WorkflowVersionRoutes = "publishVersion" | "listVersions" | "getVersion";

export function versionHandlers(workflows: WorkflowServices): Record<WorkflowVersionRoutes, RouteHandler> {
  const { store, versions, digest } = workflows;
  return {
    async publishVersion(call) {
      const id = workflowIdOf(call);
      const request = readOptionalRequest(call, readPublishVersionRequest);
      const idempotencyKey = workflowIdempotencyKeyOf(call, digest, { route: "publishVersion", id, request });
      const { version, problems, repeated } = await publishVersion(workflows, call, id, request, idempotencyKey);
      return { body: { ...presentVersion(version), problems }, headers: replayedHeader(repeated) };
    },

    async listVersions(call) {
      const id = workflowIdOf(call);
      const limit = readPageLimit(call.query);
      await store.find(call.identity, id);
      const { items, ...page } = await versions.list(call.identity.tenant, id, { limit, cursor: call.query["cursor"] });
      return { body: { items: items.map(presentVersion), ...page } };
    },

    async getVersion(call) {
      const id = workflowIdOf(call);
      await store.find(call.identity, id);
      const { version, asOf } = await versions.get(call.identity.tenant, id, readVersionNumber(call.params["version"] ?? "", id));
      return { body: { ...presentVersion(version), workflow: version.workflow, asOf }, headers: { etag: `"${version.digest}"` } };
    },
  };
}

/** A number that no version can have is a version that does not exist. */
function readVersionNumber(text: string, workflow: string): number {
  if (/^[1-9][0-9]{0,8}$/.test(text)) return Number(text);
  throw fault("E.NOT_FOUND", `workflow ${workflow} has no version ${text.slice(0, 20)}`);
}
