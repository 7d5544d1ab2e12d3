// Workers that make themselves known over REST, without a session.

import type { EnrolWorkerCommand, IdempotencyKey, WorkerDescription } from "@astraflow/engine";
import { type Fault, fault, type RouteBody, type WorkerEnrolRequest } from "@astraflow/protocol";
import { isNotFound } from "../documents/documents.ts";
import { expectAnswer } from "../environment/engine-client.ts";
import type { ServiceContext } from "../environment/service-environment.ts";
import { actorOf, type Caller } from "../identity/identity.ts";

/** The engine's command without the caller's fields: what the idempotency key is about. */
export type Enrolment = Pick<EnrolWorkerCommand, "name" | "about" | "status" | "packages"> & { readonly workerId: string };

export function enrolmentOf(request: WorkerEnrolRequest): Enrolment {
  const about = toWorkerDescription(request);
  const { workerId, name = workerId } = request;
  return { workerId, name, about, status: null, packages: about.packages };
}

type HeartbeatRequest = RouteBody<"signWorker">;

export const signOfLifeOf = ({ workerId, status, packages }: HeartbeatRequest): Enrolment => ({
  workerId,
  name: workerId,
  about: null,
  status: status ?? null,
  packages: packages === undefined ? null : readReportedPackages(packages),
});

/** Registers a worker, or records that it is alive. With a key it is done once. */
export async function enrolWorker(
  { engineClient }: ServiceContext,
  caller: Caller,
  { workerId, ...rest }: Enrolment,
  ask: IdempotencyKey | null,
) {
  const command = {
    type: "worker.enrol",
    ...actorOf(caller),
    ask,
    worker: `${caller.identity.tenant}/${workerId}`,
    ...rest,
  } as const;
  const answer = await engineClient.request(command).catch((why: unknown) => {
    throw isNotFound(why) ? workerNotRegistered(workerId) : why;
  });
  const { worker, heartbeatMs, isOnline, repeated = false } = expectAnswer(answer, "enrolled");
  return { worker, heartbeatMs, isOnline, repeated };
}

const workerNotRegistered = (workerId: string): Fault =>
  fault("E.NOT_FOUND", `there is no worker ${workerId.slice(0, 100)}; register it first`);

function toWorkerDescription({ capabilities: request = {}, packages = [], runtimes }: WorkerEnrolRequest): WorkerDescription {
  const capabilities = Array.isArray(request) ? { features: request } : request;
  const { concurrency = {}, features = [], payloadTypes = [], pool = "default" } = capabilities;
  const { tags = {}, hostname = "", version = "" } = capabilities;
  return {
    slots: concurrency.maxParallel ?? 1,
    ...(concurrency.perNodeLimits !== undefined && { perNodeLimits: concurrency.perNodeLimits }),
    packages: readReportedPackages(packages),
    runtimes: runtimes ?? capabilities.runtimes ?? [],
    features,
    payloadTypes,
    pool,
    tags,
    hostname,
    version,
    // Until its session tells more.
    dialect: "v2",
  };
}

const readReportedPackages = (packages: NonNullable<WorkerEnrolRequest["packages"]>): WorkerDescription["packages"] =>
  packages.map(({ name, version, status = "installed" }) => ({ name, version, status }));
