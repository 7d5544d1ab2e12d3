import { createFakeEnvironment } from "@astraflow/services/testing";
import { describe, expect, it } from "vitest";
import { AdmissionControl } from "./admission-control.ts";

const limits = {
  unauthenticatedMax: 2,
  unauthenticatedPerAddressMax: 1_000,
  unauthenticatedGraceMs: 1_000,
  connectionsPerTenantMax: 2,
  handshakesPerSecondMax: 100,
};

describe("admission", () => {
  it("[D15] a tenant has a limit of connections at a time: one that closes makes room for another", () => {
    const admission = new AdmissionControl(limits, createFakeEnvironment());
    const connect = (tenant: string) => {
      const connection = { connectedAt: 0, addressBlock: "192.0.2.1" };
      admission.add(connection);
      return { connection, isAdmitted: admission.markAuthenticated(connection, tenant) };
    };

    const [first] = [connect("t1"), connect("t1")];
    expect(connect("t1").isAdmitted).toBe(false);
    expect(connect("t2").isAdmitted).toBe(true);
    admission.remove(first.connection, "t1");

    expect(connect("t1").isAdmitted).toBe(true);
    expect(connect("t1").isAdmitted).toBe(false);
  });
});
