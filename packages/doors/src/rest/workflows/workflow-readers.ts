// What routes about workflows read from a request besides its JSON: bodies that may be left out, the ETag a caller has seen.

import { type Fault, fault, type JsonValue } from "@astraflow/protocol";
import { type Call, readBody, readIfMatch as readTags } from "../call.ts";
import type { Head } from "./workflow-heads.ts";
import { etagOf } from "./workflow-view.ts";

export const readOptionalBody = (call: Call): JsonValue => (call.body === null || call.body.length === 0 ? {} : readBody(call));

/** Refuses where `If-Match` names other revisions than the one the draft is at. */
export function readIfMatch(call: Call): (head: Head) => void {
  const tags = readTags(call);
  return (head) => {
    if (tags !== null && !tags.includes(etagOf(head))) throw movedOn(head);
  };
}

export const movedOn = (head: Head): Fault =>
  fault("E.ETAG.STALE", `workflow ${head.id} is at revision ${head.revision} by now; read it again`, { revision: head.revision });
