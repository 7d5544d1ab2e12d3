// The routes about the scheduler itself.

import { openObject } from "../../schema/field-types.ts";
import { HealthSchema } from "../bodies/run-bodies.ts";
import { authFaults, type Route } from "./route.ts";

export const systemRoutes = {
  getOpenapi: {
    method: "GET",
    path: "/api/v1/openapi.json",
    summary: "This document.",
    response: openObject(),
    status: 200,
    faults: ["E.REQUEST.INVALID", "E.INTERNAL"],
    isOpen: true,
  },
  getHealth: {
    method: "GET",
    path: "/healthz",
    summary: "The process is alive.",
    response: HealthSchema,
    status: 200,
    faults: ["E.REQUEST.INVALID", "E.INTERNAL"],
    isOpen: true,
  },
  getReadiness: {
    method: "GET",
    path: "/readyz",
    summary: "The process can take work: the store answers and nothing is shutting down.",
    response: HealthSchema,
    status: 200,
    faults: ["E.REQUEST.INVALID", "E.INTERNAL", "E.STORE.BUSY", "E.SHUTTING_DOWN"],
    isOpen: true,
  },
  getMetrics: {
    method: "GET",
    path: "/metrics",
    summary: "Metrics in the Prometheus text form.",
    media: "text/plain; version=0.0.4",
    status: 200,
    faults: [...authFaults, "E.REQUEST.INVALID"],
    grant: "admin",
  },
} as const satisfies Record<string, Route>;
