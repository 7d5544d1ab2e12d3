import { engineFailpoints } from "@astraflow/engine";
import { expect, it } from "vitest";
import { armFailpoints, failpointNames, parseFailpoints } from "./failpoints.ts";

const createRecordingControl = () => {
  const done: string[] = [];
  return {
    done,
    hands: { kill: () => void done.push("kill"), exit: () => void done.push("exit"), pause: () => void done.push("pause") },
  };
};

it("[O6] a failpoint acts on its n-th pass and on no other", () => {
  const { points } = parseFailpoints("turn.begun=kill@3, turn.decided=pause");
  const { done, hands: control } = createRecordingControl();
  const pass = armFailpoints(points, control);

  for (const name of ["turn.begun", "turn.begun", "turn.decided", "turn.decided"]) pass(name);
  expect(done).toEqual(["pause"]);
  pass("turn.begun");
  pass("turn.begun");

  expect(done).toEqual(["pause", "kill"]);
});

it("[O6] a failpoint with the action throw throws where it is placed, once", () => {
  const pass = armFailpoints(parseFailpoints("turn.committed=throw").points, createRecordingControl().hands);

  expect(() => pass("turn.committed")).toThrow("failpoint turn.committed");
  expect(() => pass("turn.committed")).not.toThrow();
});

it("[O6] every failpoint of the engine and the store can be armed, and a malformed entry is refused", () => {
  const text = failpointNames.map((name) => `${name}=kill`).join(",");

  expect(parseFailpoints(text).problems).toEqual([]);
  expect(failpointNames).toEqual(expect.arrayContaining([...engineFailpoints]));
  expect(parseFailpoints("turn.begun=kill@0,=kill,x").problems).toHaveLength(3);
});
