import { describe, expect, it } from "vitest";
import { renderFaultPage } from "../published/fault-page.ts";
import { Fault, fault } from "./fault.ts";
import { type FaultCode, faultCodes, isFaultCode } from "./fault-codes.ts";
import { formatFault } from "./fault-text.ts";

const specificationCodes = `E.AUTH.INVALID_TOKEN E.AUTH.MTLS_REQUIRED E.SESSION.STALE_BINDING E.SESSION.DENIED E.CMD.UNKNOWN
  E.CMD.CONCURRENCY_VIOLATION E.RESULT.DUPLICATE E.RESULT.SEQ_GAP E.PKG.INVALID E.PKG.PERMISSION E.DISPATCH.UNAVAILABLE
  E.RUNNER.FAILURE E.INTERNAL E.TIMEOUT`.split(/\s+/);
const fieldWorkerCodes = `E.AUTH.MISSING_TOKEN E.AUTH.MODE_UNSUPPORTED E.AUTH.HANDSHAKE_REQUIRED E.AUTH.UNAUTHENTICATED
  E.SESSION.UNKNOWN E.SESSION.TENANT_MISMATCH E.SESSION.NOT_REGISTERED E.SESSION.MISMATCH E.SESSION.INVALID_TOKEN
  E.RUNNER.CANCELLED E.RESOURCE.MISSING E.DISPATCH.INVALID_METADATA next_run_finalised next_duplicate next_no_chain
  next_invalid_chain next_target_not_ready next_timeout next_cancelled next_unavailable next_failed next_skipped`.split(/\s+/);
const rows = Object.entries(faultCodes);

describe("fault table", () => {
  it.each(specificationCodes)("[F1] the fault table has %s from the specification", (code) => {
    expect(faultCodes[code as FaultCode]).toMatchObject({ since: "seed", frame: code });
  });

  it.each(fieldWorkerCodes)("[F1] the fault table has %s, a code of the workers in the field", (code) => {
    expect(faultCodes[code as FaultCode]).toMatchObject({ since: "field", frame: code });
  });

  it("[F1] the fault table spells every code that is not from the workers in the field as E.AREA.NAME or E.NAME", () => {
    const ours = rows.filter(([, row]) => row.since !== "field").map(([code]) => code);

    expect(ours.filter((code) => !/^E(\.[A-Z]+)?\.[A-Z][A-Z_]*$/.test(code))).toEqual([]);
  });

  it.each(rows)("[F2] the fault table has a cause, an HTTP status and a RESP line for %s", (code, row) => {
    expect(row.cause).toMatch(/^[A-Z].*\.$/);
    expect(row.http).toBeGreaterThanOrEqual(400);
    expect(row.http).toBeLessThan(600);
    expect(row.resp).toMatch(new RegExp(`^[A-Z]+ ${code.replaceAll(".", "\\.")}$`));
  });

  it("[F2] the fault table marks every code with status 503 as worth a retry", () => {
    const late = rows.filter(([, row]) => row.http === 503);

    expect(late.filter(([, row]) => !row.retry)).toEqual([]);
  });

  it("[F2] the fault table and its rows are frozen, so no module that imports it can change it", () => {
    expect(Object.isFrozen(faultCodes)).toBe(true);
    expect(rows.every(([, row]) => Object.isFrozen(row))).toBe(true);
  });

  it("[F2] isFaultCode accepts codes of the fault table and nothing else", () => {
    expect(isFaultCode("E.NOT_FOUND")).toBe(true);
    expect(isFaultCode("toString")).toBe(false);
    expect(isFaultCode(7)).toBe(false);
  });
});

describe("fault", () => {
  it("[F3] a fault is an error with a code, details and the original error as its cause", () => {
    const cause = new Error("disk");

    const made = fault("E.STORE.OPEN", "the store in ./data cannot be opened", { file: "x" }, cause);

    expect(made).toBeInstanceOf(Fault);
    expect(made).toBeInstanceOf(Error);
    expect(made).toMatchObject({ name: "Fault", code: "E.STORE.OPEN", details: { file: "x" }, cause, isRetryable: false });
  });

  it("[F3] a fault is serialized as the error body, without its cause and stack", () => {
    const made = fault("E.STORE.BUSY", "busy", { ms: 3 }, new Error("password=hunter2"));

    expect(JSON.parse(JSON.stringify(made))).toEqual({ error: "E.STORE.BUSY", message: "busy", details: { ms: 3 } });
    expect(JSON.stringify(fault("E.NOT_FOUND", "no"))).toBe('{"error":"E.NOT_FOUND","message":"no"}');
    expect(made.isRetryable).toBe(true);
  });
});

describe("page of faults", () => {
  it("[F4] the fault page lists every code exactly once", () => {
    const listed = [...renderFaultPage().matchAll(/^\| <a id="[^"]+"><\/a>`([^`]+)` \|/gm)].map((match) => match[1]);

    expect(new Set(listed)).toEqual(new Set(Object.keys(faultCodes)));
    expect(listed).toHaveLength(rows.length);
  });

  it("[F600] the docs link that is printed with a fault leads to the one row of that code, for every code", () => {
    const lines = renderFaultPage().split("\n");

    for (const code of Object.keys(faultCodes)) {
      const [, page, anchor] = /\ndocs: ([^#\n]+)#(.+)\n$/.exec(formatFault({ code, message: "it failed" })) ?? [];
      expect(page).toBe("docs/faults.md");
      expect(lines.filter((line) => line.includes(`<a id="${anchor}"></a>`))).toEqual([expect.stringContaining(`\`${code}\``)]);
    }
  });
});
