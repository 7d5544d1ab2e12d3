// The scheduler as a program of its own: `node apps/scheduler/src/main.ts --dev`. The CLI runs the same command.

import { schedulerCommand } from "./command.ts";

process.exitCode = await schedulerCommand.run(process.argv.slice(2), process.env);
