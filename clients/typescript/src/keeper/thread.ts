/** The keeper's thread: bundled into one text that is started from memory, so that no bundler can lose the file. */
import { parentPort, workerData } from "node:worker_threads";

import { Keeper } from "./keeper.js";
import type { KeeperConfig, ToKeeper } from "./messages.js";

const port = parentPort;
if (port) {
  const keeper = new Keeper(workerData as KeeperConfig, (message) => port.postMessage(message));
  port.on("message", (message: ToKeeper) => {
    keeper.receive(message);
    if (message.type === "close") port.close();
  });
  void keeper.run();
}
