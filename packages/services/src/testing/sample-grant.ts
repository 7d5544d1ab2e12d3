// A sample grant of a secret to a package.

import type { ResourceGrantRecord } from "../resources/resource-store.ts";

export function sampleGrant(id: string, more: Partial<ResourceGrantRecord> = {}): ResourceGrantRecord {
  return {
    id,
    resourceId: "r1",
    packageName: "mail",
    packageVersion: null,
    resourceKey: "smtp",
    scope: "global",
    workflowId: null,
    actions: ["read"],
    metadata: null,
    createdAt: 1,
    createdBy: "ann",
    ...more,
  };
}
