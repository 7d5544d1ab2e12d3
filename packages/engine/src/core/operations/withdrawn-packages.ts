// Versions of packages that only work which names them may use: kept by the fleet, in memory. The services say them after each start.

import type { SetWithdrawnPackagesCommand } from "../../interface/command.ts";
import type { AnswerBody } from "../../interface/effect.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";

export function setWithdrawnPackages(work: UnitOfWork, { tenant, versions }: SetWithdrawnPackagesCommand): AnswerBody {
  work.changeFleet({ type: "withdraw", tenant, versions: new Set(versions) });
  return { of: "word", applied: true };
}
