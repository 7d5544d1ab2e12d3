// A REST request as it reaches a scheduler's process.

import type { RouteName } from "@astraflow/protocol";
import type { ApiCallObservation } from "../observation/observation.ts";

export interface ApiRequest extends Pick<ApiCallObservation, "tenant" | "params" | "query" | "idempotencyKey" | "body"> {
  readonly route: RouteName;
}
