// Edits of a draft, as the door uses them: read from strangers, put on top of those of others, or refused with what is in the way.

import { applyEdits, diffWorkflows, findEditConflicts, readEdits, type WorkflowEdit } from "@astraflow/graph";
import { Fault, fault, type JsonValue, readWorkflow, type Workflow } from "@astraflow/protocol";
import { checkPreviewSize } from "./workflow-checks.ts";
import type { DraftRevision, WorkflowDocument } from "./workflow-store.ts";
import { presentDraftChange } from "./workflow-view.ts";

/** More than this is not worth keeping as edits; whoever was working on the draft meanwhile reads it again. */
const editsKeptMax = 2_000;

export function parseEdits(value: readonly JsonValue[]): readonly WorkflowEdit[] {
  const edits = readEdits(value);
  if (typeof edits === "string") throw fault("E.REQUEST.INVALID", `body.${edits}`, { path: "body.edits" });
  return edits;
}

/** What leads from one workflow to another; null where it is too much to be kept. */
export function editsBetween(from: Workflow, to: Workflow): readonly WorkflowEdit[] | null {
  const { edits } = diffWorkflows(from, to);
  return edits.length <= editsKeptMax ? edits : null;
}

/** The draft after edits that were made on an older revision of it, with what others saved since; throws where they do not go together. */
export function rebaseEdits(
  document: WorkflowDocument,
  base: number,
  mine: readonly WorkflowEdit[],
): { readonly workflow: Workflow; readonly between: readonly DraftRevision[] } {
  const between = changesSince(document, base, mine);
  const edited = applyEdits(document.workflow, mine);
  if (typeof edited === "string") {
    if (between.length > 0) throw draftConflict(document, base, between, [], `, and ${edited}`);
    throw fault("E.REQUEST.INVALID", `body.edits cannot be made: ${edited}`, { path: "body.edits" });
  }
  const workflow = readWorkflow({ ...edited, id: document.id });
  if (workflow instanceof Fault) throw workflow;
  return { workflow: checkPreviewSize(workflow), between };
}

function changesSince(document: WorkflowDocument, base: number, mine: readonly WorkflowEdit[]): readonly DraftRevision[] {
  if (base > document.revision)
    throw fault(
      "E.REQUEST.INVALID",
      `body.base is ${base}, and workflow ${document.id} is only at revision ${document.revision}`,
      {
        path: "body.base",
        head: document.revision,
      },
    );
  const between = document.recent.filter((change) => change.revision > base);
  const isKnown = between.length === document.revision - base && between.every((change) => change.edits !== null);
  if (!isKnown) {
    const all = mine.map((_, edit) => ({ edit }));
    throw draftConflict(
      document,
      base,
      between,
      all,
      ", and what changed since is too much to be compared; read the draft again",
    );
  }
  // Each of theirs with the revision it came by, in one list.
  const theirs = between.flatMap(({ revision, edits }) => (edits ?? []).map((edit, index) => ({ revision, index, edit })));
  const clashes = findEditConflicts(
    mine,
    theirs.map(({ edit }) => edit),
  );
  if (clashes.length === 0) return between;
  const named = clashes.map(({ mine: edit, theirs: other, field }) => {
    const { revision, index } = theirs[other] ?? {};
    return { edit, field, with: { revision, edit: index } };
  });
  throw draftConflict(document, base, between, named, `, and ${clashes[0]?.field} was changed by others since`);
}

function draftConflict(
  document: WorkflowDocument,
  base: number,
  between: readonly DraftRevision[],
  conflicts: readonly object[],
  why: string,
): Fault {
  const details = { head: document.revision, base, edits: between.map(presentDraftChange), conflicts };
  return fault("E.DRAFT.CONFLICT", `workflow ${document.id} is at revision ${document.revision}, not ${base}${why}`, details);
}
