// What the workflow routes share: reading keys and ETags of a request, and the answer about a written workflow.

import { canonicalJson } from "@astraflow/graph";
import {
  type RevisionCheck,
  searchTermFor,
  staleRevisionFault,
  type WorkflowIdempotencyKey,
  type WrittenWorkflow,
  workflowEtag,
} from "@astraflow/services";
import { replayedHeader } from "../requests/idempotency.ts";
import { type RestCall, type RestReply, readIdempotencyKey, readIfMatch } from "../requests/rest-call.ts";

export const workflowIdOf = ({ params }: RestCall): string => params["workflowId"] ?? "";

/** Refuses if `If-Match` names other revisions than the one the draft is at. */
export function readRevisionCheck(call: RestCall): RevisionCheck {
  const tags = readIfMatch(call);
  return (document) => {
    if (tags !== null && !tags.includes(workflowEtag(document))) throw staleRevisionFault(document);
  };
}

/** The key of a request with a digest of all that makes it this request; null without a key. */
export function workflowIdempotencyKeyOf(
  call: RestCall,
  digest: (text: string) => string,
  request: unknown,
): WorkflowIdempotencyKey | null {
  const key = readIdempotencyKey(call);
  if (key === null) return null;
  const sum = digest(canonicalJson([call.identity.user, request]));
  return { key, digest: sum, searchTerm: searchTermFor("ask", `${call.identity.tenant} ${key} ${sum}`) };
}

export const writtenReply = ({ workflowId, revision, repeated }: WrittenWorkflow): RestReply =>
  revision === null
    ? { body: { workflowId }, headers: replayedHeader(repeated) }
    : { body: { workflowId, revision }, headers: { etag: `"r${revision}"`, ...replayedHeader(repeated) } };
