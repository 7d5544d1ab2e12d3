// The routes about packages on many workers: installs, rollouts, rollbacks, and alerts.

import { bodyReaderOf, type FleetInstall, type Rollout } from "@astraflow/protocol";
import type { Services } from "@astraflow/services";
import { type RestCall, type RestReply, type RouteHandlers, replayedHeader } from "../requests/rest-call.ts";

export function packageFleetHandlers({ fleet, alerts }: Services) {
  const { installs, rollouts, loop } = fleet;
  const readPage = (call: RestCall) => ({ cursor: call.query["cursor"], limit: call.readPageLimit() });
  /** What was begun goes on from here at once. */
  const begunReply = (call: RestCall, begun: BegunRollout): RestReply => {
    loop.watch(call.tenant);
    const { rollout, head, repeated } = begun;
    const path = `${packagePath(rollout.packageName)}/rollouts/${rollout.rolloutId}`;
    return { body: { ...rollout, asOf: head }, headers: { location: path, ...replayedHeader(repeated) } };
  };

  return {
    async installPackage(call) {
      const request = call.readBody(bodyReaderOf("installPackage"));
      const { install, head, repeated } = await installs.start(
        call,
        call.param("packageName"),
        request,
        call.readIdempotencyKey(),
      );
      loop.watch(call.tenant);
      return {
        body: { ...install, asOf: head },
        headers: { location: installPath(install), ...replayedHeader(repeated) },
      };
    },

    listInstalls: async (call) => ({ body: await installs.list(call.tenant, call.param("packageName"), readPage(call)) }),

    async getInstall(call) {
      const { install, head } = await installs.find(call.tenant, call.param("packageName"), call.param("installId"));
      return { body: { ...install, asOf: head } };
    },

    async startRollout(call) {
      const request = call.readBody(bodyReaderOf("startRollout"));
      return begunReply(call, await rollouts.start(call, call.param("packageName"), request, call.readIdempotencyKey()));
    },

    listRollouts: async (call) => ({ body: await rollouts.list(call.tenant, call.param("packageName"), readPage(call)) }),

    async getRollout(call) {
      const { rollout, head } = await rollouts.find(call.tenant, call.param("packageName"), call.param("rolloutId"));
      return { body: { ...rollout, asOf: head } };
    },

    async stopRollout(call) {
      const { rollback = false } = call.readOptionalBody(bodyReaderOf("stopRollout"));
      const [name, id] = [call.param("packageName"), call.param("rolloutId")];
      return begunReply(call, await rollouts.stop(call, name, id, rollback, call.readIdempotencyKey()));
    },

    async rollbackPackage(call) {
      const request = call.readOptionalBody(bodyReaderOf("rollbackPackage"));
      return begunReply(call, await rollouts.rollback(call, call.param("packageName"), request, call.readIdempotencyKey()));
    },

    listAlerts: async (call) => ({ body: await alerts.list(call.tenant) }),
  } satisfies RouteHandlers;
}

interface BegunRollout {
  readonly rollout: Rollout;
  readonly head: number;
  readonly repeated: boolean;
}

const packagePath = (name: string): string => `/api/v1/packages/${encodeURIComponent(name)}`;
const installPath = ({ packageName, installId }: FleetInstall): string => `${packagePath(packageName)}/installs/${installId}`;
