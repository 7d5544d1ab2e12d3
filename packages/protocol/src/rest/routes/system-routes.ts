// The routes about the scheduler itself.

import { openObject } from "../../schema/field-types.ts";
import { HealthSchema } from "../bodies/run-bodies.ts";
import { authFaults, type Route, route } from "./route.ts";

export const systemRoutes = {
  getOpenapi: route("GET", "/api/v1/openapi.json", {
    summary: "This document.",
    response: openObject(),
    faults: ["E.REQUEST.INVALID", "E.INTERNAL"],
    isOpen: true,
  }),
  getHealth: route("GET", "/healthz", {
    summary: "The process is alive.",
    response: HealthSchema,
    faults: ["E.REQUEST.INVALID", "E.INTERNAL"],
    isOpen: true,
  }),
  getReadiness: route("GET", "/readyz", {
    summary: "The process can take work: the store answers and nothing is shutting down.",
    response: HealthSchema,
    faults: ["E.REQUEST.INVALID", "E.INTERNAL", "E.STORE.BUSY", "E.SHUTTING_DOWN"],
    isOpen: true,
  }),
  getMetrics: route("GET", "/metrics", {
    summary: "Metrics in the Prometheus text form.",
    media: "text/plain; version=0.0.4",
    faults: [...authFaults, "E.REQUEST.INVALID"],
    grant: "admin",
  }),
} as const satisfies Record<string, Route>;
