// A REST request as it reaches a scheduler's process.

import type { RouteName } from "@astraflow/protocol";

export interface ApiRequest {
  readonly route: RouteName;
  readonly tenant: string;
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string>>;
  readonly idempotencyKey: string | null;
  readonly body: string | null;
}
