// The routes about the scheduler itself.

import * as t from "../../schema/field-types.ts";
import { HealthSchema } from "../bodies/run-bodies.ts";
import { authFaults, type Route, route } from "./route.ts";

export const systemRoutes = {
  getOpenapi: route("GET", "/api/v1/openapi.json", "open", {
    summary: "This document.",
    response: t.openObject(),
    faults: ["E.REQUEST.INVALID", "E.INTERNAL"],
  }),
  getHealth: route("GET", "/healthz", "open", {
    summary: "The process is alive.",
    response: HealthSchema,
    faults: ["E.REQUEST.INVALID", "E.INTERNAL"],
  }),
  getReadiness: route("GET", "/readyz", "open", {
    summary: "The process can take work: the store answers and nothing is shutting down.",
    response: HealthSchema,
    faults: ["E.REQUEST.INVALID", "E.INTERNAL", "E.STORE.BUSY", "E.SHUTTING_DOWN"],
  }),
  getMetrics: route("GET", "/metrics", "admin", {
    summary: "Metrics in the Prometheus text form.",
    media: "text/plain; version=0.0.4",
    faults: [...authFaults, "E.REQUEST.INVALID"],
  }),
} as const satisfies Record<string, Route>;
