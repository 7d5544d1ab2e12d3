// The REST routes that exist now, as data: the door serves this table, the OpenAPI document is written from it.
// A route that is not here does not exist; its handler lives in the REST door under the same operation name.

import { catalogRoutes } from "./routes-catalog.ts";
import { enrolmentRoutes } from "./routes-enrolment.ts";
import { eventsRoutes } from "./routes-events.ts";
import { peopleRoutes } from "./routes-people.ts";
import { resourcesRoutes } from "./routes-resources.ts";
import { runsRoutes } from "./routes-runs.ts";
import { steeringRoutes } from "./routes-steering.ts";
import { systemRoutes } from "./routes-system.ts";
import { viewsRoutes } from "./routes-views.ts";
import { workersRoutes } from "./routes-workers.ts";
import { workflowsRoutes } from "./routes-workflows.ts";

export type { Grant, QueryParameter, Route } from "./routes-base.ts";

export const routes = {
  ...runsRoutes,
  ...steeringRoutes,
  ...workersRoutes,
  ...enrolmentRoutes,
  ...eventsRoutes,
  ...workflowsRoutes,
  ...catalogRoutes,
  ...peopleRoutes,
  ...resourcesRoutes,
  ...viewsRoutes,
  ...systemRoutes,
} as const;

export type RouteName = keyof typeof routes;
