// What every decision may use besides its board: settings, the floor, dice, ids, and two caches of immutable things.

import { compilePlan, type Plan, type PlanNode } from "@astraflow/graph";
import type { Workflow } from "@astraflow/protocol";
import type { Millis, RouteId, RunRow, TaskRow } from "../rows.ts";
import type { Settings } from "../world.ts";
import type { Board } from "./board/board.ts";
import type { Floor } from "./crew/floor.ts";
import { needsOf, needsText } from "./place/route.ts";
import { nodeAt, slotOf } from "./rows/slot.ts";

export interface Tools {
  readonly settings: Settings;
  readonly floor: Floor;
  /** This scheduler in its present life. */
  readonly me: { readonly replica: string; readonly epoch: number };
  readonly plans: Plans;
  roll(): number;
  nextId(now: Millis): string;
  /** For tests alone: the requeue that forgets its fence. */
  readonly forgetsFence: boolean;
}

interface Compiled {
  readonly plan: Plan;
  /** Route of each node for this tenant; filled as they are met. */
  readonly routes: Map<PlanNode, RouteId>;
}

/** Workflow definitions never change under their digest, so what was compiled once serves every run of it. */
export class Plans {
  readonly #digest: (text: string) => string;
  readonly #max: number;
  readonly #compiled = new Map<string, Compiled>();

  constructor(digest: (text: string) => string, max: number) {
    this.#digest = digest;
    this.#max = max;
  }

  of(board: Board, run: RunRow): Plan {
    return this.#get(board, run.workflow).plan;
  }

  /** The node that a task is about; for a frame its container. */
  nodeOf(board: Board, run: RunRow, task: Pick<TaskRow, "id" | "run">): PlanNode {
    const node = nodeAt(this.of(board, run), slotOf(task));
    if (node === null) throw new Error(`run ${run.id} has no node for ${task.id}`);
    return node;
  }

  /** The route of a node; a new one is interned as a row and told to the floor. */
  route(board: Board, floor: Floor, run: RunRow, node: PlanNode): RouteId {
    const compiled = this.#get(board, run.workflow);
    const known = compiled.routes.get(node);
    if (known !== undefined && floor.routes.has(known)) return known;
    const needs = needsOf(run.tenant, node);
    const id = this.#digest(needsText(needs));
    if (!floor.routes.has(id)) {
      if (board.route(id) === null) board.put({ kind: "route", id, tenant: run.tenant, needs: needsText(needs) });
      board.move({ move: "route", route: id, needs });
    }
    compiled.routes.set(node, id);
    return id;
  }

  #get(board: Board, workflow: string): Compiled {
    const found = this.#compiled.get(workflow);
    if (found !== undefined) return found;
    const row = board.workflow(workflow);
    if (row === null) throw new Error(`workflow ${workflow} is not stored`);
    const compiled = { plan: compilePlan(JSON.parse(row.body) as Workflow), routes: new Map<PlanNode, RouteId>() };
    if (this.#compiled.size >= this.#max) this.#compiled.delete(this.#compiled.keys().next().value as string);
    this.#compiled.set(workflow, compiled);
    return compiled;
  }
}
