// REST bodies of worker enrolment (registering without a socket) and of commands to workers.

import Type, { type Static } from "typebox";
import { ResultErrorSchema } from "../../definitions/workflow.ts";
import { Fault } from "../../faults/fault.ts";
import { limits } from "../../json/limits.ts";
import {
  idString,
  instantString,
  integer,
  listOf,
  mapOf,
  nameString,
  oneOf,
  openObject,
  optional,
} from "../../schema/field-types.ts";
import { asOfPosition, createBodyReader } from "./body-parts.ts";

const packageList = () =>
  listOf(
    Type.Object({ name: idString(), version: idString(), status: optional(nameString("installed where it is left out.")) }),
    limits.packagesMax,
  );

export const WorkerEnrolRequestSchema = Type.Object({
  workerId: idString("Instance id of the worker, as in its handshake."),
  name: optional(idString("How people call it; the instance id where it is left out.")),
  capabilities: optional(
    Type.Union(
      [
        Type.Object({
          concurrency: optional(Type.Object({ maxParallel: optional(integer(1)), perNodeLimits: optional(mapOf(integer(1))) })),
          runtimes: optional(listOf(nameString())),
          features: optional(listOf(nameString())),
          payloadTypes: optional(listOf(nameString())),
          pool: optional(idString()),
          tags: optional(mapOf(nameString())),
          hostname: optional(nameString()),
          version: optional(nameString()),
        }),
        listOf(nameString()),
      ],
      { description: "A list is that of its features." },
    ),
  ),
  packages: optional(packageList()),
  runtimes: optional(listOf(nameString())),
});
export type WorkerEnrolRequest = Static<typeof WorkerEnrolRequestSchema>;

export const WorkerSignRequestSchema = Type.Object({
  workerId: idString(),
  status: optional(
    Type.Union([
      nameString("Free text from the worker."),
      Type.Object({ healthy: optional(Type.Boolean()), metrics: optional(mapOf(Type.Number())) }),
    ]),
  ),
  packages: optional(packageList()),
});
export type WorkerSignRequest = Static<typeof WorkerSignRequestSchema>;

export const WorkerEnrolmentSchema = Type.Object({
  instanceId: idString(),
  wsUrl: Type.String({ description: "Where its socket goes; it gets no work before it is up." }),
  heartbeatIntervalMs: integer(1),
  connected: Type.Boolean({ description: "Its socket is up." }),
});

const packageName = () => Type.String({ minLength: 1, maxLength: limits.nameCharsMax, pattern: "^[a-z0-9]+([._-][a-z0-9]+)*$" });
const versionString = () => Type.String({ minLength: 1, maxLength: 64, pattern: "^[0-9A-Za-z.+-]+$" });
/** Unknown fields are refused, so that a typo does not become another command. */
const commandSchemas = {
  drain: Type.Object({ type: Type.Literal("drain") }),
  rebind: Type.Object({ type: Type.Literal("rebind"), queue: idString() }),
  "pkg.install": Type.Object({
    type: Type.Literal("pkg.install"),
    name: packageName(),
    version: optional(versionString()),
    url: optional(Type.String({ maxLength: 2_048, pattern: "^(https?|file):[^\\u0000-\\u0020]+$" })),
    sha256: optional(Type.String({ pattern: "^[A-Fa-f0-9]{64}$" })),
  }),
  "pkg.uninstall": Type.Object({ type: Type.Literal("pkg.uninstall"), name: packageName(), version: optional(versionString()) }),
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
  commandId: idString(),
  workerName: nameString(),
  workerId: idString(),
  type: nameString(),
  status: oneOf(["sent", "acked", "failed"], "sent: the worker has not answered yet."),
  acceptedAt: instantString(),
  finishedAt: optional(instantString()),
  request: optional(openObject("The command as it was sent.")),
  result: optional(openObject("What the worker or the scheduler reported.")),
  error: optional(ResultErrorSchema),
  asOf: asOfPosition(),
});
export type CommandDetail = Static<typeof CommandDetailSchema>;

const readCommandType = createBodyReader(Type.Object({ type: oneOf(commandTypes) }));
const commandReaders = {
  drain: createBodyReader(commandSchemas.drain, { unknownKeys: "refuse" }),
  rebind: createBodyReader(commandSchemas.rebind, { unknownKeys: "refuse" }),
  "pkg.install": createBodyReader(commandSchemas["pkg.install"], { unknownKeys: "refuse" }),
  "pkg.uninstall": createBodyReader(commandSchemas["pkg.uninstall"], { unknownKeys: "refuse" }),
};

/** The body of POST /api/workers/register. */
export const readWorkerEnrolRequest = createBodyReader(WorkerEnrolRequestSchema);
/** The body of POST /api/workers/heartbeat. */
export const readWorkerHeartbeatRequest = createBodyReader(WorkerSignRequestSchema);
/** The body of POST /api/v1/workers/{workerName}/commands. */
export function readWorkerCommand(value: unknown): WorkerCommand | Fault {
  const typed = readCommandType(value);
  return typed instanceof Fault ? typed : commandReaders[typed.type](value);
}
