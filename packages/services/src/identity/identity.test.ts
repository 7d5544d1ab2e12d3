import { expect, it } from "vitest";
import { missingPermissionMessage } from "./identity.ts";

it("[A831] a refusal for want of a permission names the permission and the roles that have it", () => {
  expect(missingPermissionMessage("edit")).toBe("this needs the permission edit, which admin and workflow.editor have");
  expect(missingPermissionMessage("admin")).toBe("this needs the permission admin, which admin has");
  expect(missingPermissionMessage("worker")).toBe("this needs the permission worker, which no role has");
});
