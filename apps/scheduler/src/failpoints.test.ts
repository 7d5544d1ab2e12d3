import { engineFailpoints } from "@astraflow/engine";
import { expect, it } from "vitest";
import { armFailpoints, failpointNames, readFailpoints } from "./failpoints.ts";

const handsThatNote = () => {
  const done: string[] = [];
  return {
    done,
    hands: { kill: () => void done.push("kill"), exit: () => void done.push("exit"), pause: () => void done.push("pause") },
  };
};

it("[O6] a failpoint acts at its n-th pass and at no other", () => {
  const { points } = readFailpoints("turn.begun=kill@3, turn.decided=pause");
  const { done, hands } = handsThatNote();
  const pass = armFailpoints(points, hands);

  for (const name of ["turn.begun", "turn.begun", "turn.decided", "turn.decided"]) pass(name);
  expect(done).toEqual(["pause"]);
  pass("turn.begun");
  pass("turn.begun");

  expect(done).toEqual(["pause", "kill"]);
});

it("[O6] throw throws where the point is", () => {
  const pass = armFailpoints(readFailpoints("turn.committed=throw").points, handsThatNote().hands);

  expect(() => pass("turn.committed")).toThrow("failpoint turn.committed");
  expect(() => pass("turn.committed")).not.toThrow();
});

it("[O6] every point of engine and store can be armed, and nothing else", () => {
  const text = failpointNames.map((name) => `${name}=kill`).join(",");

  expect(readFailpoints(text).problems).toEqual([]);
  expect(failpointNames).toEqual(expect.arrayContaining([...engineFailpoints]));
  expect(readFailpoints("turn.begun=kill@0,=kill,x").problems).toHaveLength(3);
});
