// The REST routes that exist now, as data: the door serves this table, the OpenAPI document is written from it.
// A route that is not here does not exist; its handler lives in the REST door under the same operation name.

import { catalogRoutes } from "./routes-catalog.ts";
import { enrolmentRoutes } from "./routes-enrolment.ts";
import { eventRoutes } from "./routes-events.ts";
import { userRoutes } from "./routes-people.ts";
import { resourceRoutes } from "./routes-resources.ts";
import { runRoutes } from "./routes-runs.ts";
import { runOperationRoutes } from "./routes-steering.ts";
import { systemRoutes } from "./routes-system.ts";
import { viewRoutes } from "./routes-views.ts";
import { workerRoutes } from "./routes-workers.ts";
import { workflowRoutes } from "./routes-workflows.ts";

export type { Permission, QueryParameter, Route } from "./routes-base.ts";

export const routes = {
  ...runRoutes,
  ...runOperationRoutes,
  ...workerRoutes,
  ...enrolmentRoutes,
  ...eventRoutes,
  ...workflowRoutes,
  ...catalogRoutes,
  ...userRoutes,
  ...resourceRoutes,
  ...viewRoutes,
  ...systemRoutes,
} as const;

export type RouteName = keyof typeof routes;
