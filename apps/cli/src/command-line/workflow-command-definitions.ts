// The commands about workflows and what they are made of: `workflows`, `nodes`.

import { queryKeys } from "@astraflow/protocol";
import { searchNodes, showNode } from "../nodes/node-commands.ts";
import { exampleNames } from "../workflows/example-workflows.ts";
import { createWorkflowFile } from "../workflows/new-command.ts";
import * as workflows from "../workflows/workflow-commands.ts";
import { type CommandTable, parseInteger } from "./command-table.ts";

const workflowHelp = "name or id, or its unique beginning";
const fileHelp = "a workflow as JSON; - is stdin";
const allowUnknownHelp = "accept packages that no worker offers";
const parseVersionNumber = parseInteger(1, 999_999_999);

export const workflowCommands: CommandTable = {
  workflows: {
    help: "manage stored workflows: drafts, versions, files",
    examples: ["new", "list", "push flow.json"],
  },
  "workflows list": {
    isPaged: true,
    help: "list stored workflows, last changed first",
    examples: ["astra workflows list", "--search welcome --output id", "--json"],
    filter: queryKeys.workflows,
    options: { "--search <text>": "search name, description, tags, owner and id" },
    run: workflows.listWorkflows,
  },
  "workflows show": {
    help: "show a workflow: its draft, nodes, versions and problems",
    examples: ['"Welcome journey"', "2b1f", "welcome --json"],
    arguments: { "<workflow>": workflowHelp },
    run: workflows.showWorkflow,
  },
  "workflows new": {
    help: "write a small workflow that runs at once, as a file to begin with",
    examples: ["astra workflows new", "first.json", "--example map map.json"],
    arguments: { "[file]": "the file to write (default: workflow.json); - is stdout" },
    options: { "--example <name>": { help: "which one", choices: exampleNames, default: "hello" } },
    isOffline: true,
    runLocally: createWorkflowFile,
  },
  "workflows pull": {
    help: "save the draft, or a version, as a file",
    examples: ["welcome --to flow.json", "welcome --version 3", "welcome | jq .nodes"],
    arguments: { "<workflow>": workflowHelp },
    options: {
      "--version <n>": { help: "a published version", parse: parseVersionNumber },
      "--to <file>": "the file to write (default: stdout)",
    },
    run: workflows.pullWorkflow,
  },
  "workflows push": {
    help: "store a file as the draft of the workflow with its id",
    examples: ["flow.json", "flow.json --base 7", "flow.json --dry-run"],
    arguments: { "<file>": fileHelp },
    options: {
      "--base <revision>": { help: "only if the draft is still at this revision", parse: parseVersionNumber },
      "--dry-run": "only check the file",
      "--allow-unknown": allowUnknownHelp,
    },
    run: workflows.pushWorkflow,
  },
  "workflows validate": {
    help: "check files and list all their problems; exit code 1 if one cannot run",
    examples: ["flow.json", "*.json --local", "- --json < flow.json"],
    arguments: { "<file...>": fileHelp },
    options: { "--local": "check offline, without package schemas" },
    run: workflows.validateWorkflow,
  },
  "workflows diff": {
    help: "show changes between versions, up to the draft, or from the draft to a file",
    examples: ["welcome", "welcome --from 1 --to 2", "welcome --file flow.json"],
    arguments: { "<workflow>": workflowHelp },
    options: {
      "--from <version>": "a number or draft (default: the newest version)",
      "--to <version>": "a number or draft (default: the draft)",
      "--file <file>": "compare the draft with this file",
    },
    run: workflows.diffWorkflow,
  },
  "workflows publish": {
    kind: "change",
    help: "publish the draft as a version, which never changes",
    examples: ["welcome", 'welcome --note "shorter delay"', "welcome --revision 7 --dry-run"],
    arguments: { "<workflow>": workflowHelp },
    options: {
      "--note <text>": "what is new",
      "--revision <n>": { help: "only if the draft is still at this revision", parse: parseVersionNumber },
      "--allow-unknown": allowUnknownHelp,
    },
    run: workflows.publishWorkflow,
  },
  "workflows rollback": {
    kind: "change",
    help: "replace the draft with a published version",
    examples: ["welcome 3", "welcome 3 --dry-run", "welcome 3 --json"],
    arguments: { "<workflow>": workflowHelp, "<version>": { help: "its number", parse: parseVersionNumber } },
    run: workflows.rollbackWorkflow,
  },
  nodes: { help: "find the node types that workflows are made of", examples: ["search", "search text", "show demo.text"] },
  "nodes search": {
    isList: true,
    isPaged: true,
    help: "list node types whose name, package, label, category, tags or description have all these words",
    examples: ["astra nodes search", "text", "--package demo"],
    arguments: { "[text...]": "words to search; without any all node types" },
    options: { "--package <name>": "only node types of this package" },
    run: searchNodes,
  },
  "nodes show": {
    help: "show a node type: parameters, results, ports, workers, and a node to paste",
    examples: ["demo.text", "demo.text --version 1.0.0", "demo.text --json | jq .example"],
    arguments: { "<type>": "the node type" },
    options: {
      "--package <name>": "the package, if several have the type",
      "--version <v>": "of the package (default: the newest)",
    },
    run: showNode,
  },
};
