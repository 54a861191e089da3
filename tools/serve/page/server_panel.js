// What the server says of itself: its state, and the figures of its engine.

import {getJson} from "./api.js";
import {byId, counted, number} from "./dom.js";

const PERIOD_MS = 1000;
const WORDS = {
  ok: "ready",
  loading: "loading the model",
  restarting: "restarting the device",
  draining: "shutting down",
  device_error: "the device has failed",
};

let timer = 0;
let before = null;  // {tokens, at} of the state before
let onModel = () => {};

function setStatus(kind, text) {
  byId("status-dot").className = `dot ${kind}`;
  if (byId("status").textContent !== text) byId("status").textContent = text;
}

// Returns the tokens a second of all requests since the state before, or null.
function rateOf(tokens) {
  const now = {tokens, at: performance.now()};
  const rate = before ? ((now.tokens - before.tokens) * 1000) / (now.at - before.at) : null;
  before = now;
  return rate;
}

function showFigures(f) {
  const rate = rateOf(f.generation_tokens);
  byId("running").textContent = f.running;
  byId("waiting").textContent = f.waiting;
  byId("steps").textContent = number(f.steps);
  byId("server-rate").textContent = rate === null ? "–" : number(rate);
  byId("cache").value = f.pages ? f.pages_used / f.pages : 0;
  byId("cache-text").textContent = f.pages ? `${f.pages_used} of ${counted(f.pages, "page")}` : "–";
}

function showModel(model) {
  byId("model").textContent = model.name;
  document.title = `${model.name} · mkc`;
  byId("about").textContent = `on ${model.device}, ${counted(model.positions, "position")}`;
  onModel(model);
  onModel = () => {};
}

async function update() {
  try {
    const state = await getJson("/debug/state");
    byId("give-key").hidden = true;
    setStatus(state.status === "ok" ? "good" : "bad", WORDS[state.status]);
    if (!state.model) return;
    showModel(state.model);
    showFigures(state.figures);
  } catch (error) {
    before = null;
    byId("give-key").hidden = error.name !== "NoKey";
    setStatus("bad", error.name === "NoKey" ? "needs the API key" : "the server does not answer");
  }
}

async function updateForEver() {
  clearTimeout(timer);
  if (!document.hidden) await update();
  if (byId("give-key").hidden) timer = setTimeout(updateForEver, PERIOD_MS);
}

// Shows the server's state again and again. `modelLoaded` is called once, with the model.
export function watchServer(modelLoaded) {
  onModel = modelLoaded;
  byId("give-key").addEventListener("click", updateForEver);
  updateForEver();
}
