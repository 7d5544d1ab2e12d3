import type { JsonObject, PackageEventPayload } from "@astraflow/protocol";
import { expect, it } from "vitest";
import { toPackageOperation } from "./work-frames.ts";

it.each<[PackageEventPayload["status"], JsonObject | undefined, string]>([
  ["installed", undefined, "install"],
  ["removed", undefined, "uninstall"],
  ["failed", undefined, "install"],
  ["failed", { op: "uninstall" }, "uninstall"],
  ["failed", { op: "anything" }, "install"],
])("[A26] a worker's package event with status %s and details %j counts as operation %s", (status, details, op) => {
  expect(toPackageOperation({ status, ...(details !== undefined && { details }) })).toEqual({ op, status });
});
