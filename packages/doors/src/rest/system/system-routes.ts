// The routes about the process itself: alive, ready, its numbers, its own description, and the demo page.

import { buildOpenapiDocument, type FaultCode } from "@astraflow/protocol";
import type { RouteHandlers } from "../requests/rest-call.ts";
import { createMetricsCollector, type MetricsCollectorOptions } from "./metrics-collector.ts";

export interface SystemRoutesOptions extends MetricsCollectorOptions {
  /** Why the process cannot take work at this moment; null when it can. The reason is shown to whoever asks. */
  readonly unready: () => { readonly code: FaultCode; readonly reason: string } | null;
}

export function systemHandlers(options: SystemRoutesOptions) {
  const { metrics, unready } = options;
  const refresh = createMetricsCollector(options);
  let openapi: string | null = null;
  return {
    getOpenapi: () => {
      openapi ??= JSON.stringify(buildOpenapiDocument());
      return { body: openapi, media: "application/json; charset=utf-8" };
    },
    getHealth: () => ({ body: { ok: true } }),
    getReadiness: () => {
      const why = unready();
      if (why === null) return { body: { ok: true } };
      return { status: 503, body: { ok: false, error: why.code, message: why.reason } };
    },
    async getMetrics() {
      await refresh();
      return { body: metrics.render(), media: "text/plain; version=0.0.4; charset=utf-8" };
    },
  } satisfies RouteHandlers;
}
