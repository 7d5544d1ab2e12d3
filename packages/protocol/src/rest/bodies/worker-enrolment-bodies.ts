// REST bodies of worker enrolment (registering without a socket) and of commands to workers.

import type { Static } from "typebox";
import { PackageSignatureSchema } from "../../definitions/package-signature.ts";
import { ResultErrorSchema } from "../../definitions/workflow.ts";
import { Fault } from "../../faults/fault.ts";
import { limits } from "../../json/limits.ts";
import * as t from "../../schema/field-types.ts";
import { asOfPosition, createBodyReader } from "./body-parts.ts";

const packageList = () =>
  t.list(
    t.object({ name: t.id(), version: t.id(), status: t.optional(t.name("installed where it is left out.")) }),
    limits.packagesMax,
  );

export const WorkerEnrolRequestSchema = t.object({
  workerId: t.id("Instance id of the worker, as in its handshake."),
  name: t.optional(t.id("How people call it; the instance id where it is left out.")),
  capabilities: t.optional(
    t.union(
      [
        t.object({
          concurrency: t.optionalObject({
            maxParallel: t.optional(t.integer(1)),
            perNodeLimits: t.optional(t.map(t.integer(1))),
          }),
          runtimes: t.optional(t.list(t.name())),
          features: t.optional(t.list(t.name())),
          payloadTypes: t.optional(t.list(t.name())),
          pool: t.optional(t.id()),
          tags: t.optional(t.map(t.name())),
          hostname: t.optional(t.name()),
          version: t.optional(t.name()),
        }),
        t.list(t.name()),
      ],
      { description: "A list is that of its features." },
    ),
  ),
  packages: t.optional(packageList()),
  runtimes: t.optional(t.list(t.name())),
});
export type WorkerEnrolRequest = Static<typeof WorkerEnrolRequestSchema>;

export const WorkerSignRequestSchema = t.object({
  workerId: t.id(),
  status: t.optional(
    t.union([
      t.name("Free text from the worker."),
      t.object({ healthy: t.optional(t.boolean()), metrics: t.optional(t.map(t.number())) }),
    ]),
  ),
  packages: t.optional(packageList()),
});
export type WorkerSignRequest = Static<typeof WorkerSignRequestSchema>;

export const WorkerEnrolmentSchema = t.object({
  instanceId: t.id(),
  wsUrl: t.string({ description: "Where its socket goes; it gets no work before it is up." }),
  heartbeatIntervalMs: t.integer(1),
  connected: t.boolean({ description: "Its socket is up." }),
});

const packageName = () => t.string({ minLength: 1, maxLength: limits.nameCharsMax, pattern: "^[a-z0-9]+([._-][a-z0-9]+)*$" });
const versionString = () => t.string({ minLength: 1, maxLength: 64, pattern: "^[0-9A-Za-z.+-]+$" });
const answerDeadline = () =>
  t.optional(
    t.between(
      1_000,
      7 * 24 * 3_600_000,
      "It has failed if the worker leaves it without any answer for so long; absent: as the scheduler is set.",
    ),
  );
const commandSchemas = {
  drain: t.object({ type: t.literal("drain") }),
  rebind: t.object({ type: t.literal("rebind"), queue: t.id() }),
  "pkg.install": t.object({
    type: t.literal("pkg.install"),
    name: packageName(),
    version: t.optional(versionString()),
    url: t.optional(
      t.string({
        maxLength: 2_048,
        pattern: "^(https?|file):[^\\u0000-\\u0020]+$",
        description: "Absent: the archive is published here.",
      }),
    ),
    sha256: t.optional(t.string({ pattern: "^[A-Fa-f0-9]{64}$" })),
    signature: t.optional(PackageSignatureSchema),
    allowOlder: t.optional(t.boolean({ description: "Install it although the worker had a newer version." })),
    deadlineMs: answerDeadline(),
  }),
  "pkg.uninstall": t.object({
    type: t.literal("pkg.uninstall"),
    name: packageName(),
    version: t.optional(versionString()),
    deadlineMs: answerDeadline(),
  }),
} as const;
export const WorkerCommandSchema = t.union([
  commandSchemas.drain,
  commandSchemas.rebind,
  commandSchemas["pkg.install"],
  commandSchemas["pkg.uninstall"],
]);
export type WorkerCommand = Static<typeof WorkerCommandSchema>;
const commandTypes = Object.keys(commandSchemas) as (keyof typeof commandSchemas)[];

export const CommandDetailSchema = t.object({
  commandId: t.id(),
  workerName: t.name(),
  workerId: t.id(),
  type: t.name(),
  status: t.oneOf(["sent", "acked", "failed"], "sent: the worker has not answered yet."),
  acceptedAt: t.instant(),
  finishedAt: t.optional(t.instant()),
  request: t.optional(t.openObject("The command as it was sent.")),
  result: t.optional(t.openObject("What the worker or the scheduler reported.")),
  error: t.optional(ResultErrorSchema),
  asOf: asOfPosition(),
});
export type CommandDetail = Static<typeof CommandDetailSchema>;

const readCommandType = createBodyReader(t.object({ type: t.oneOf(commandTypes) }), { unknownKeys: "drop" });
const commandReaders = {
  drain: createBodyReader(commandSchemas.drain),
  rebind: createBodyReader(commandSchemas.rebind),
  "pkg.install": createBodyReader(commandSchemas["pkg.install"]),
  "pkg.uninstall": createBodyReader(commandSchemas["pkg.uninstall"]),
};

export function readWorkerCommand(value: unknown): WorkerCommand | Fault {
  const typed = readCommandType(value);
  return typed instanceof Fault ? typed : commandReaders[typed.type](value);
}
