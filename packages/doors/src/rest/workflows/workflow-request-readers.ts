// What routes about workflows read from a request besides its JSON: bodies that may be left out, the ETag a caller has seen.

import { type Fault, fault, type JsonValue } from "@astraflow/protocol";
import { type RestCall, readJsonBody, readIfMatch as readTags } from "../requests/rest-call.ts";
import type { WorkflowDocument } from "./workflow-store.ts";
import { workflowEtag } from "./workflow-view.ts";

export const readOptionalBody = (call: RestCall): JsonValue =>
  call.body === null || call.body.length === 0 ? {} : readJsonBody(call);

/** Refuses where `If-Match` names other revisions than the one the draft is at. */
export function readRevisionCheck(call: RestCall): (document: WorkflowDocument) => void {
  const tags = readTags(call);
  return (document) => {
    if (tags !== null && !tags.includes(workflowEtag(document))) throw staleRevisionFault(document);
  };
}

export const staleRevisionFault = (document: WorkflowDocument): Fault =>
  fault("E.ETAG.STALE", `workflow ${document.id} is at revision ${document.revision} by now; read it again`, {
    revision: document.revision,
  });
