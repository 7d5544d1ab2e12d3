// The frames by which a worker says how a package command goes on, and how it ended.

import { errorMessage, Fault, type FaultCode, type PackageEventPayload } from "@astraflow/protocol";
import type { TakenPackageCommand } from "./install-journal.ts";

export function createPackageEvent(
  { id, payload }: TakenPackageCommand,
  status: PackageEventPayload["status"],
  details: object | null,
): PackageEventPayload {
  const version = payload.version ?? "*";
  const more = details === null ? {} : { details: details as NonNullable<PackageEventPayload["details"]> };
  return { name: payload.name, version, status, command_id: payload.command_id ?? id, ...more };
}

export function createFailureEvent(command: TakenPackageCommand, thrown: unknown): PackageEventPayload {
  const code: FaultCode = thrown instanceof Fault ? thrown.code : "E.INTERNAL";
  const details = { ...(thrown instanceof Fault ? thrown.details : {}), code, reason: errorMessage(thrown), op: command.type };
  return createPackageEvent(command, "failed", details);
}
