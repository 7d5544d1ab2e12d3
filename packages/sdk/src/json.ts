// JSON as types. The published package has its own copy of these two, so that it needs no other package.

export type { JsonObject, JsonValue } from "@astraflow/protocol";
