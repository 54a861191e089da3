// The fields of sampling, and the system text.

import {byId} from "./dom.js";

const COMPLETION_TOKENS = 200;  // new tokens of a text that goes on, where the field is empty
const form = byId("settings");

// Shows what the server takes where a field is empty.
export function showDefaults(model) {
  for (const [name, value] of Object.entries(model.sampling)) form.elements[name].placeholder = value;
  form.elements.max_tokens.placeholder = model.chat ? "the context" : COMPLETION_TOKENS;
  byId("system-label").hidden = !model.chat;
}

export const systemText = () => form.elements.system.value;

// Returns the fields of a request. Returns null where a value is out of bounds, which the form shows.
export function samplingFields(chat) {
  if (!form.reportValidity()) return null;
  const fields = chat ? {} : {max_tokens: COMPLETION_TOKENS};
  for (const input of form.querySelectorAll("input")) {
    if (input.value === "") continue;
    fields[input.name] = input.type === "number" ? input.valueAsNumber : input.value;
  }
  return fields;
}

// A narrow page begins with the fields folded, so that the step is near.
byId("settings-card").open = innerWidth > 900;
form.addEventListener("submit", (event) => event.preventDefault());
