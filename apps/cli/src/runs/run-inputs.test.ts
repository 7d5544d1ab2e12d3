import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Workflow } from "@astraflow/protocol";
import { expect, it } from "vitest";
import { applyInputFlags } from "./run-inputs.ts";

const uuid = (digit: number): string => `${String(digit).repeat(8)}-1111-4111-8111-111111111111`;
const port = (key: string, path: string) => ({ key, label: key, binding: { path, mode: "two_way" } });
const node = (digit: number, label: string, parameters: object) => ({
  id: uuid(digit),
  type: "demo.text",
  label,
  package: { name: "demo", version: "1.0.0" },
  position: { x: 0, y: 0 },
  parameters,
  ui: { inputPorts: [port("to", "/parameters/to")], outputPorts: [port("text", "/results/text")] },
});
const workflow = {
  id: uuid(9),
  schemaVersion: "2025-10",
  metadata: { name: "W" },
  nodes: [node(1, "Write", { text: "a", to: "x" }), node(2, "Send", { to: "y", mail: { subject: "s" } })],
  edges: [{ id: "e", source: { node: uuid(1), port: "text" }, target: { node: uuid(2), port: "to" } }],
} as unknown as Workflow;
const words = { input: [], pin: [], label: [] };
const inputs = (...input: string[]) =>
  applyInputFlags(workflow, { ...words, input }).workflow?.nodes.map(({ parameters }) => parameters);

it("[L16] --input sets a parameter of the node it names, or of the only node that has it and gets it from no other node", () => {
  expect(inputs("text=hello")).toMatchObject([{ text: "hello", to: "x" }, { to: "y" }]);
  expect(inputs("to=z")).toMatchObject([{ to: "z" }, { to: "y" }]);
  expect(inputs("send.to=z", "mail.subject=7")).toMatchObject([{ to: "x" }, { to: "z", mail: { subject: 7 } }]);
  expect(applyInputFlags(workflow, words)).toEqual({});
});

it("[L16] an --input that matches no node, a pair without a name and a bad --pin are refused before anything is sent", () => {
  expect(() => inputs("txet=1")).toThrow(
    expect.objectContaining({ exitCode: 2, message: expect.stringContaining("mean text?") }),
  );
  expect(() => inputs("Wirte.text=1")).toThrow("No node is called Wirte; did you mean Write? Nodes: Write, ");
  expect(() => inputs("=1")).toThrow(/takes name=value/);
  expect(() => applyInputFlags(workflow, { ...words, pin: ["Write=7"] })).toThrow(/JSON object/);
  expect(() => applyInputFlags(workflow, { ...words, from: "Nowhere" })).toThrow(expect.objectContaining({ exitCode: 3 }));
});

it("[L16] --pin, --from and --to accept node labels", () => {
  expect(applyInputFlags(workflow, { ...words, pin: ['write={"text":"b"}'], from: "Send", to: "send", label: ["a=b"] })).toEqual({
    pins: { [uuid(1)]: { text: "b" } },
    from: uuid(2),
    to: uuid(2),
    labels: { a: "b" },
  });
});

const schemas = new Map([[uuid(1), { type: "object", properties: { text: {}, to: {}, tone: {} } }]]);
const described = (...input: string[]) =>
  applyInputFlags(workflow, { ...words, input }, schemas).workflow?.nodes.map(({ parameters }) => parameters);

it("[L831] --input for a parameter that the named node does not have is refused with the names it has", () => {
  expect(described("Write.tone=warm")).toMatchObject([{ tone: "warm" }, {}]);
  expect(described("tone=warm")).toMatchObject([{ tone: "warm" }, {}]);
  expect(described("Send.anything=1")).toMatchObject([{}, { anything: 1 }]);
  expect(() => described("Write.txet=hi")).toThrow(
    expect.objectContaining({
      exitCode: 2,
      message: "Write (demo.text) has no parameter txet; did you mean text? (it has text, to, tone).",
    }),
  );
});

it("[L831] --input with the name of a node alone names the parameters of the node", () => {
  expect(() => described("write=hi")).toThrow(
    expect.objectContaining({
      exitCode: 2,
      message: "write is a node: write --input write.text=hi (parameters: text, to, tone)",
    }),
  );
});

it("[L910] a file that --input names must be JSON if its name says so; other files are text", () => {
  const folder = mkdtempSync(join(tmpdir(), "inputs-"));
  writeFileSync(join(folder, "a.json"), '{"to": oops}');
  writeFileSync(join(folder, "a.txt"), '{"to": oops}');

  expect(() => inputs(`text=@${join(folder, "a.json")}`)).toThrow(/a\.json:1:8 is not JSON/);
  expect(inputs(`text=@${join(folder, "a.txt")}`)).toMatchObject([{ text: '{"to": oops}' }, {}]);
  rmSync(folder, { recursive: true });
});
