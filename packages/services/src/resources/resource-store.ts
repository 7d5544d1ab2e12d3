// The documents about resources: resources and unfinished uploads under their ids, grants under ids that begin with a digest of the package.

import { createHash } from "node:crypto";
import type { DocPut } from "@astraflow/engine";
import type { JsonObject } from "@astraflow/protocol";
import { recordPut } from "../documents/documents.ts";

export interface ResourceRecord {
  readonly id: string;
  readonly provider: "local" | "db";
  readonly filename: string;
  readonly sizeBytes: number;
  readonly createdAt: number;
  readonly owner: string;
  readonly visibility: "private" | "public" | "owner";
  readonly mimeType: string | null;
  readonly sha256: string;
  readonly metadata: JsonObject | null;
}

export interface UploadRecord extends Omit<ResourceRecord, "sha256"> {
  readonly chunkSize: number;
  readonly sha256: string | null;
  readonly updatedAt: number;
  /** `removing`: only the bytes under this id are left, and they are being deleted. */
  readonly status: "pending" | "completed" | "removing";
  readonly resource: string | null;
  /** Parts received so far, as ranges [first, last], in order. */
  readonly parts: readonly (readonly [number, number])[];
}

export interface ResourceGrantRecord {
  readonly id: string;
  readonly resourceId: string;
  readonly packageName: string;
  readonly packageVersion: string | null;
  readonly resourceKey: string;
  readonly scope: "workflow" | "global";
  readonly workflowId: string | null;
  readonly actions: readonly ("read" | "write" | "use")[];
  readonly metadata: JsonObject | null;
  readonly createdAt: number;
  readonly createdBy: string;
}

/** Sorts as its number does. */
const sortKeyOf = (at: number): string => String(at).padStart(16, "0");

export const resourcePut = (resource: ResourceRecord, rev: number): DocPut =>
  recordPut("resource", resource, rev, {
    sort: sortKeyOf(resource.createdAt),
    terms: `${resource.filename.toLowerCase()} ${resource.sha256}`,
  });

/** The upload that was idle longest sorts first: the sweep looks there. */
export const uploadPut = (upload: UploadRecord, rev: number): DocPut =>
  recordPut("upload", upload, rev, { sort: sortKeyOf(upload.updatedAt) });

export const grantPut = (grant: ResourceGrantRecord): DocPut =>
  recordPut("grant", grant, 0, { sort: sortKeyOf(grant.createdAt) });

/** Ids of all grants to a package begin with this, so that they are found by prefix. */
export const grantIdPrefix = (packageName: string): string =>
  `${createHash("sha256").update(packageName, "utf8").digest("hex").slice(0, 16)}-`;
