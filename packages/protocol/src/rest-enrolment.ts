// Bodies of the REST routes by which a worker makes itself known without a socket, and of commands to workers.

import Type, { type Static } from "typebox";
import type { Fault } from "./fault.ts";
import { limits } from "./limits.ts";

import { shape } from "./shape.ts";
import { bag, id, instant, int, list, map, name, oneOf, optional } from "./words.ts";
import { ResultErrorSchema } from "./workflow.ts";

const packages = () =>
  list(Type.Object({ name: id(), version: id(), status: optional(name("installed where it is left out.")) }), limits.packagesMax);

export const WorkerEnrolRequestSchema = Type.Object({
  workerId: id("Instance id of the worker: the one it will say in its handshake."),
  name: optional(id("How people call it; the instance id where it is left out.")),
  capabilities: optional(
    Type.Union(
      [
        Type.Object({
          concurrency: optional(Type.Object({ maxParallel: optional(int(1)), perNodeLimits: optional(map(int(1))) })),
          runtimes: optional(list(name())),
          features: optional(list(name())),
          payloadTypes: optional(list(name())),
          pool: optional(id()),
          tags: optional(map(name())),
          hostname: optional(name()),
          version: optional(name()),
        }),
        list(name()),
      ],
      { description: "A list is that of its features." },
    ),
  ),
  packages: optional(packages()),
  runtimes: optional(list(name())),
});
export type WorkerEnrolRequest = Static<typeof WorkerEnrolRequestSchema>;

export const WorkerSignRequestSchema = Type.Object({
  workerId: id(),
  status: optional(
    Type.Union([
      name("In the worker's own words."),
      Type.Object({ healthy: optional(Type.Boolean()), metrics: optional(map(Type.Number())) }),
    ]),
  ),
  packages: optional(packages()),
});
export type WorkerSignRequest = Static<typeof WorkerSignRequestSchema>;

export const WorkerEnrolmentSchema = Type.Object({
  instanceId: id(),
  wsUrl: Type.String({ description: "Where its socket goes; it gets no work before it is up." }),
  heartbeatIntervalMs: int(1),
  connected: Type.Boolean({ description: "Its socket is up." }),
});

const packageName = () => Type.String({ minLength: 1, maxLength: limits.nameCharsMax, pattern: "^[a-z0-9]+([._-][a-z0-9]+)*$" });
const version = () => Type.String({ minLength: 1, maxLength: 64, pattern: "^[0-9A-Za-z.+-]+$" });
/** Read by its type: whatever else is there is refused, so that a slip does not become another command. */
const commandSchemas = {
  drain: Type.Object({ type: Type.Literal("drain") }),
  rebind: Type.Object({ type: Type.Literal("rebind"), queue: id() }),
  "pkg.install": Type.Object({
    type: Type.Literal("pkg.install"),
    name: packageName(),
    version: optional(version()),
    url: optional(Type.String({ maxLength: 2_048, pattern: "^(https?|file):[^\\u0000-\\u0020]+$" })),
    sha256: optional(Type.String({ pattern: "^[A-Fa-f0-9]{64}$" })),
  }),
  "pkg.uninstall": Type.Object({ type: Type.Literal("pkg.uninstall"), name: packageName(), version: optional(version()) }),
} as const;
export const WorkerCommandSchema = Type.Union([
  commandSchemas.drain,
  commandSchemas.rebind,
  commandSchemas["pkg.install"],
  commandSchemas["pkg.uninstall"],
]);
export type WorkerCommand = Static<typeof WorkerCommandSchema>;
const commandTypes = Object.keys(commandSchemas) as (keyof typeof commandSchemas)[];

export const CommandDetailSchema = Type.Object({
  commandId: id(),
  workerName: name(),
  workerId: id(),
  type: name(),
  status: oneOf(["sent", "acked", "failed"], "sent: the worker has not answered yet."),
  acceptedAt: instant(),
  finishedAt: optional(instant()),
  request: optional(bag("The command as it was given.")),
  result: optional(bag("What the worker or the scheduler said of it.")),
  error: optional(ResultErrorSchema),
  asOf: int(0, undefined, "Position of the tenant's log that this is true at."),
});
export type CommandDetail = Static<typeof CommandDetailSchema>;

/** By the names they have in the OpenAPI document. */
export const enrolmentSchemas = {
  WorkerEnrolRequest: WorkerEnrolRequestSchema,
  WorkerSignRequest: WorkerSignRequestSchema,
  WorkerEnrolment: WorkerEnrolmentSchema,
  WorkerCommand: WorkerCommandSchema,
  CommandDetail: CommandDetailSchema,
} as const;

const reading = { code: "E.REQUEST.INVALID", what: "body", unknown: "drop" } as const;
const enrolShape = shape(WorkerEnrolRequestSchema, reading);
const signShape = shape(WorkerSignRequestSchema, reading);
const typeShape = shape(Type.Object({ type: oneOf(commandTypes) }), reading);
const commandShapes = new Map(
  commandTypes.map((type) => [type, shape(commandSchemas[type], { ...reading, unknown: "refuse" })] as const),
);

/** The body of POST /api/workers/register. */
export const readWorkerEnrol = (value: unknown): WorkerEnrolRequest | Fault => enrolShape.read(value);
/** The body of POST /api/workers/heartbeat. */
export const readWorkerSign = (value: unknown): WorkerSignRequest | Fault => signShape.read(value);
/** The body of POST /api/v1/workers/{workerName}/commands. */
export function readWorkerCommand(value: unknown): WorkerCommand | Fault {
  const named = typeShape.read(value);
  const { type } = named as { type?: keyof typeof commandSchemas };
  const own = type === undefined ? undefined : commandShapes.get(type);
  return own === undefined ? (named as Fault) : (own.read(value) as WorkerCommand | Fault);
}
