import { describe, expect, it } from "vitest";
import { checkSilentFailures } from "../../../scripts/checks/silent-failures.ts";
import { writeTemporaryTree } from "../temporary-tree.ts";

const checkSource = (source: string) => checkSilentFailures(writeTemporaryTree({ "packages/a/src/a.ts": source }));

describe("silent failures", () => {
  it.each([
    ["try { f(); } catch {}"],
    ["try { f(); } catch (error) { /* never mind */ }"],
    ["try { f(); } catch {\n  // it may be gone already\n}"],
    ["f().catch(() => {});"],
    ["f().catch(() => undefined);"],
    ["f().catch((error) => { /* fine */ });"],
    ["f()?.catch(async () => {});"],
    ["f().catch(function () {});"],
    ['it.skip("a", run);'],
    ['describe.only("a", run);'],
    ['test.todo("a");'],
    ['it.skipIf(isWindows)("a", run);'],
  ])("[H14] the silent-failures check finds %s", (source) => {
    expect(checkSource(source)).toHaveLength(1);
  });

  it.each([
    ["try { f(); } catch (error) { throw new Fault(error); }"],
    ["try { f(); } catch { return null; }"],
    ["f().catch((error) => log(error));"],
    ["f().catch(() => null ?? other);"],
    ["ready.promise.catch(() => undefined); return ready.promise;"],
    ['it("a", (ctx) => ctx.skip("no server here"));'],
    ["list.skip(3); // it.skip()"],
  ])("[H14] the silent-failures check accepts %s", (source) => {
    expect(checkSource(source)).toEqual([]);
  });
});
