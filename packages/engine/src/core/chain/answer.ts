// The answer to a middleware's call as words for its session. When it is given is calls.ts, how it gets to another scheduler is post.ts.

import type { SendNext } from "../../effect.ts";
import type { TaskRow } from "../../rows.ts";
import type { Board } from "../board/board.ts";
import type { Seat } from "../crew/floor.ts";

export type NextWords = Pick<SendNext, "request" | "result" | "error" | "trace">;

export function tellNext(board: Board, seat: Seat, caller: Pick<TaskRow, "id" | "run">, node: string, words: NextWords): void {
  board.effect({
    type: "next",
    session: seat.session,
    worker: seat.worker,
    tenant: seat.tenant,
    run: caller.run,
    task: caller.id,
    node,
    ...words,
  });
}
