// JSON as types. The published package has its own copy of this type, so that it needs no other package.

export type { JsonObject } from "@astraflow/protocol";
