import { expect, it } from "vitest";
import { faultText, settingsText } from "./fault-text.ts";

it("[L57] a fault is told in lines: code and sentence, its problems, what to try, and where it is explained if it is", () => {
  expect(faultText({ code: "E.NOT_FOUND", message: "there is no run 7", problems: ["a", "b"], next: "astra runs list" })).toBe(
    "error E.NOT_FOUND: there is no run 7\n  a\n  b\ntry: astra runs list\ndocs: docs/faults.md#E.NOT_FOUND\n",
  );
  expect(faultText({ code: "E.DECLINED", message: "Nothing was done.", next: null })).toBe(
    "error E.DECLINED: Nothing was done.\n",
  );
});

it("[L57] one wrong setting is the sentence itself, several are counted and told one by one", () => {
  expect(settingsText(["--a is wrong"], "astra worker --help")).toMatch(/^error E\.CONFIG\.INVALID: --a is wrong\ntry: /);
  expect(settingsText(["--a is wrong", "--b too"], "astra worker --help")).toMatch(
    /^error E\.CONFIG\.INVALID: 2 settings cannot be used:\n {2}--a is wrong\n {2}--b too\ntry: /,
  );
});
