// What routes about workflows read from a request besides its JSON: bodies that may be left out, the ETag a caller has seen.

import { type Fault, fault, type JsonValue } from "@astraflow/protocol";
import { type Call, readBody } from "../call.ts";
import type { Head } from "./workflow-heads.ts";
import { etagOf } from "./workflow-view.ts";

export const readOptionalBody = (call: Call): JsonValue => (call.body === null || call.body.length === 0 ? {} : readBody(call));

/** Refuses where `If-Match` names other revisions than the one the draft is at. Absent or `*`: whatever there is. */
export function readIfMatch(call: Call): (head: Head) => void {
  const text = call.header("if-match")?.trim();
  if (text === undefined || text === "*") return () => undefined;
  const tags = text.split(",").map((tag) => tag.trim());
  if (text.length > 256 || !tags.every((tag) => /^(W\/)?"[\x21\x23-\x7e]*"$/.test(tag)))
    throw fault("E.REQUEST.INVALID", 'If-Match must be an ETag in quotes, such as "r3"', { path: "headers.If-Match" });
  return (head) => {
    if (!tags.includes(etagOf(head))) throw movedOn(head);
  };
}

export const movedOn = (head: Head): Fault =>
  fault("E.ETAG.STALE", `workflow ${head.id} is at revision ${head.revision} by now; read it again`, { revision: head.revision });
