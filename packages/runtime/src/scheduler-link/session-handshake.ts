// The payloads of the frames that open a session or resume one: handshake, register, resume.

import { type HeldTaskRef, limits } from "@astraflow/protocol";
import { linkFeatures, linkPayloadTypes, type WorkerCapabilities, type WorkerIdentity } from "./link-ports.ts";

export function buildHandshake({ auth, name, instance, version, hostname }: WorkerIdentity): object {
  const worker = { worker_name: name, worker_instance_id: instance, version, hostname };
  return { protocol: 2, auth, worker };
}

export function buildRegister(
  { boot }: WorkerIdentity,
  capabilities: WorkerCapabilities,
  running: readonly HeldTaskRef[],
): object {
  const { maxParallel, perNodeLimits, runtimes, pool, tags, packages, manifests, resources } = capabilities;
  const concurrency = { max_parallel: maxParallel, per_node_limits: perNodeLimits };
  const features = [...new Set([...linkFeatures, ...capabilities.features])];
  return {
    capabilities: { concurrency, runtimes, features, pool, tags },
    payload_types: linkPayloadTypes,
    packages,
    manifests,
    boot_id: boot,
    running,
    ...resourcesField(resources),
  };
}

export function buildResume({ boot }: WorkerIdentity, session: { id: string; token: string; lastSeenSeq: number }): object {
  return { session_id: session.id, session_token: session.token, last_seen_seq: session.lastSeenSeq, boot_id: boot };
}

/** All resources or no list: what a list leaves out counts as gone. */
function resourcesField(resources: Iterable<string> = []): { resources?: string[] } {
  const ids = [...resources];
  const chars = ids.reduce((sum, id) => sum + id.length, 0);
  return ids.length > limits.registeredResourcesMax || chars > resourceCharsMax ? {} : { resources: ids };
}

/** Leaves room in the register frame for everything else. */
const resourceCharsMax = 256 * 1024;
