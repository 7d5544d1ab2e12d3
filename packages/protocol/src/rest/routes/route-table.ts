// Every REST route. The door has a handler of the same name for each, and the OpenAPI document is written from this table.

import { eventRoutes } from "./event-routes.ts";
import { resourceRoutes } from "./resource-routes.ts";
import { runOperationRoutes } from "./run-operation-routes.ts";
import { runRoutes } from "./run-routes.ts";
import { viewRoutes } from "./saved-view-routes.ts";
import { systemRoutes } from "./system-routes.ts";
import { userRoutes } from "./user-routes.ts";
import { workerRoutes } from "./worker-routes.ts";
import { workflowRoutes } from "./workflow-routes.ts";

export type { Permission, QueryParameter, Route } from "./route.ts";

export const routes = {
  ...runRoutes,
  ...runOperationRoutes,
  ...workerRoutes,
  ...eventRoutes,
  ...workflowRoutes,
  ...userRoutes,
  ...resourceRoutes,
  ...viewRoutes,
  ...systemRoutes,
} as const;

export type RouteName = keyof typeof routes;

/** Where workers open their WebSockets, beside the routes. */
export const sessionPath = "/ws/worker";
