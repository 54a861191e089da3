// The page's parts, put together.

import {setAskForKey} from "./api.js";
import {openChat} from "./chat.js";
import {byId} from "./dom.js";
import {watchServer} from "./server_panel.js";
import {showDefaults} from "./settings.js";
import {openStep, readStep} from "./step_panel.js";

// Asks for the key in a dialog. Throws an error named NoKey where the user closes the dialog without one.
function askForKey(refused) {
  const dialog = byId("key-dialog");
  const input = byId("key");
  byId("key-text").textContent =
      refused ? "The server refused this key." : "This server asks for its API key.";
  input.value = "";
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve, reject) => {
    const close = () => {
      const key = input.value;
      input.value = "";
      if (key)
        resolve(key);
      else
        reject(Object.assign(new Error("the server needs its API key"), {name: "NoKey"}));
    };
    dialog.addEventListener("cancel", () => (input.value = ""), {once: true});
    dialog.addEventListener("close", close, {once: true});
  });
}

setAskForKey(askForKey);
watchServer((model) => {
  showDefaults(model);
  openStep(model);
  openChat(model, () => byId("follow").checked && readStep());
});
