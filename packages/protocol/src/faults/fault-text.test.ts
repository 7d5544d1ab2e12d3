import { expect, it } from "vitest";
import { formatFault, formatSettingsFault } from "./fault-text.ts";

it("[L57] a fault is printed in lines: code and message, its problems, what to try, and where it is documented, if it is", () => {
  expect(
    formatFault({ code: "E.NOT_FOUND", message: "there is no run 7", problems: ["a", "b"], suggestion: "astra runs list" }),
  ).toBe("error E.NOT_FOUND: there is no run 7\n  a\n  b\ntry: astra runs list\ndocs: docs/faults.md#E.NOT_FOUND\n");
  expect(formatFault({ code: "E.DECLINED", message: "Nothing was done.", suggestion: null })).toBe(
    "error E.DECLINED: Nothing was done.\n",
  );
});

it("[L57] one wrong setting is printed as the message itself; several are counted and listed one by one", () => {
  expect(formatSettingsFault(["--a is wrong"], "astra worker --help")).toMatch(/^error E\.CONFIG\.INVALID: --a is wrong\ntry: /);
  expect(formatSettingsFault(["--a is wrong", "--b too"], "astra worker --help")).toMatch(
    /^error E\.CONFIG\.INVALID: 2 settings cannot be used:\n {2}--a is wrong\n {2}--b too\ntry: /,
  );
});
