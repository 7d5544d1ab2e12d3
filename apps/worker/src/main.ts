// The worker on its own: `node apps/worker/src/main.ts --url ... --token @FILE`.

import { workerCommand } from "./index.ts";

process.exitCode = await workerCommand.run(process.argv.slice(2), process.env);
