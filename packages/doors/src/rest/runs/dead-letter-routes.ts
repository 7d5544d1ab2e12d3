// The routes about dead letters.

import { readSteerRequest } from "@astraflow/protocol";
import { dismissDeadLetter, listDeadLetters, presentRunRef, type RunServices, requeueDeadLetter } from "@astraflow/services";
import { idempotencyKeyOf, replayedHeader } from "../requests/idempotency.ts";
import { type RestCall, type RouteHandler, readOptionalRequest, readPageLimit } from "../requests/rest-call.ts";

type DeadLetterRoutes = "listDeadLetters" | "requeueDeadLetter" | "dismissDeadLetter";

export function deadLetterHandlers(runs: RunServices): Record<DeadLetterRoutes, RouteHandler> {
  const readChange = (call: RestCall, type: string) => {
    const request = readOptionalRequest(call, readSteerRequest);
    const idempotencyKey = idempotencyKeyOf(call, type, request, runs.digest);
    return { task: call.params["taskId"] ?? "", reason: request.reason, idempotencyKey };
  };
  return {
    async listDeadLetters({ identity, query }) {
      const { q, runId, status, cursor } = query;
      const asked = { q, runId, status, cursor, limit: readPageLimit(query) };
      return { body: await listDeadLetters(runs, identity.tenant, asked) };
    },

    async requeueDeadLetter(call) {
      const { task, reason, idempotencyKey } = readChange(call, "letter.requeue");
      const { run, isRepeated } = await requeueDeadLetter(runs, call, task, reason, idempotencyKey);
      return { body: presentRunRef(run), headers: replayedHeader(isRepeated) };
    },

    async dismissDeadLetter(call) {
      const { task, reason, idempotencyKey } = readChange(call, "letter.dismiss");
      const { deadLetter, isRepeated } = await dismissDeadLetter(runs, call, task, reason, idempotencyKey);
      return { body: deadLetter, headers: replayedHeader(isRepeated) };
    },
  };
}
