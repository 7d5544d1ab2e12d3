// The routes about packages on many workers: installs, rollouts, rollbacks, and what an operator should look at.

import * as bodies from "../bodies/package-fleet-bodies.ts";
import { changeFaults, pagingQuery, type Route, route } from "./route.ts";

const fleetFaults = [...changeFaults, "E.PKG.PERMISSION", "E.LIMIT.REACHED"] as const;

export const packageFleetRoutes = {
  installPackage: route("POST", "/api/v1/packages/{packageName}/installs", "operate", {
    summary:
      "Install a published version on chosen workers, on a pool or on all workers, or uninstall it there. It goes on by itself; workers that cannot do it are named with the reason.",
    request: bodies.FleetInstallRequestSchema,
    response: bodies.FleetInstallDetailSchema,
    status: 202,
    faults: fleetFaults,
  }),
  listInstalls: route("GET", "/api/v1/packages/{packageName}/installs", "view", {
    summary: "The installs and removals of a package that were ordered for many workers, newest first.",
    query: pagingQuery,
    response: bodies.FleetInstallListSchema,
  }),
  getInstall: route("GET", "/api/v1/packages/{packageName}/installs/{installId}", "view", {
    summary: "How far an install or removal is, worker by worker.",
    response: bodies.FleetInstallDetailSchema,
  }),
  startRollout: route("POST", "/api/v1/packages/{packageName}/rollouts", "operate", {
    summary:
      "Bring a published version to the workers in phases. Each phase is watched; an install that fails, or too many failed tasks of the version, stop the rollout and take the version back.",
    request: bodies.RolloutRequestSchema,
    response: bodies.RolloutDetailSchema,
    status: 202,
    faults: fleetFaults,
  }),
  listRollouts: route("GET", "/api/v1/packages/{packageName}/rollouts", "view", {
    summary: "The rollouts and rollbacks of a package, newest first.",
    query: pagingQuery,
    response: bodies.RolloutListSchema,
  }),
  getRollout: route("GET", "/api/v1/packages/{packageName}/rollouts/{rolloutId}", "view", {
    summary: "How far a rollout or rollback is.",
    response: bodies.RolloutDetailSchema,
  }),
  stopRollout: route("POST", "/api/v1/packages/{packageName}/rollouts/{rolloutId}/stop", "operate", {
    summary: "Stop a rollout. Workers keep what they have, or go back to the version before if the body says so.",
    request: bodies.RolloutStopRequestSchema,
    isBodyOptional: true,
    response: bodies.RolloutDetailSchema,
    status: 202,
    faults: changeFaults,
  }),
  rollbackPackage: route("POST", "/api/v1/packages/{packageName}/rollback", "operate", {
    summary:
      "Go back to the version before the one in use, or to a named one: it is installed where it is missing, and the newer one is withdrawn and removed.",
    request: bodies.PackageRollbackRequestSchema,
    isBodyOptional: true,
    response: bodies.RolloutDetailSchema,
    status: 202,
    faults: fleetFaults,
  }),
  listAlerts: route("GET", "/api/v1/alerts", "view", {
    summary:
      "What an operator should look at now: workers that are lost, full disks, stopped rollouts, failed installs. The newest first.",
    response: bodies.AlertListSchema,
  }),
} as const satisfies Record<string, Route>;
