// The chat: conversations, the message box, and the answers as they come.
//
// A model with a chat template gets the turns as messages. Any other model gets all turns joined as one text,
// which it continues.

import {streamAnswer} from "./answer.js";
import {byId, counted, duration, make, number} from "./dom.js";
import {samplingFields, systemText} from "./settings.js";

const REASONS = {
  stop: "ended by itself",
  length: "cut at the most tokens",
  abort: "stopped"
};
const TITLE_LENGTH = 40;

const turnsBox = byId("turns");
const message = byId("message");
const conversations = [[]];  // each a list of turns: {role, text, note, failed}
let current = conversations[0];
let isChat = true;
let running = null;  // AbortController of the answer that streams
let onAnswered = () => {};

// Shows the form of talk that the model knows, and calls a function after each answer.
export function openChat(model, answered) {
  isChat = model.chat;
  onAnswered = answered;
  byId("no-template").hidden = isChat;
  byId("chat-title").textContent = isChat ? "Chat" : "Text";
  byId("new-chat").textContent = isChat ? "New chat" : "New text";
  byId("message-label").textContent = isChat ? "Message" : "Text";
  turnsBox.classList.toggle("text", !isChat);
  render();
}

function noteOf(reason, figures) {
  const parts = [REASONS[reason] ?? reason, counted(figures.tokens, "token")];
  if (figures.rate) parts.push(`${number(figures.rate)} tokens/s`);
  if (figures.firstTokenMs !== null) parts.push(`first after ${duration(figures.firstTokenMs)}`);
  return parts.join(" · ");
}

function showFigures(figures) {
  byId("first-token").textContent = figures?.firstTokenMs == null ? "–" : duration(figures.firstTokenMs);
  byId("rate").textContent = figures?.rate == null ? "–" : number(figures.rate);
  byId("tokens").textContent = figures?.tokens ?? "–";
  const {promptTokens, cachedTokens} = figures ?? {};
  const cached = cachedTokens ? ` (${cachedTokens} cached)` : "";
  byId("prompt-tokens").textContent = promptTokens == null ? "–" : `${promptTokens}${cached}`;
}

function turnElement(turn) {
  const name = {
    user: isChat ? "You" : "Your text",
    assistant: isChat ? "Model" : "The model's text"
  }[turn.role];
  const element = make("article", {className: `turn ${turn.role}`});
  element.classList.toggle("failed", Boolean(turn.failed));
  element.append(make("h3", {textContent: name}), make("p", {className: "words", textContent: turn.text}));
  element.append(make("p", {className: "note", textContent: turn.note ?? ""}));
  return element;
}

function scrollToEnd() {
  turnsBox.scrollTop = turnsBox.scrollHeight;
}

function renderHistory() {
  const options = conversations.map((turns, i) => {
    const title = turns[0]?.text.trim().slice(0, TITLE_LENGTH) || "(new)";
    return make("option", {value: i, textContent: `${i + 1}: ${title}`, selected: turns === current});
  });
  byId("history").replaceChildren(...options);
  byId("history-label").hidden = conversations.length < 2;
}

function render() {
  const hint = isChat ? "Nothing said yet." : "No text yet.";
  const children = current.map(turnElement);
  turnsBox.replaceChildren(
      ...(children.length ? children : [make("p", {className: "empty", textContent: hint})]));
  message.placeholder = isChat ? "Write a message" :
      current.length           ? "Write what comes next, or nothing" :
                                 "Write how a text begins";
  renderHistory();
  scrollToEnd();
}

// Returns path and body of a request for the turns, or null where a setting is wrong.
function requestFor(turns) {
  const fields = samplingFields(isChat);
  if (!fields) return null;
  const said = turns.filter((turn) => !turn.failed);
  if (!isChat) {
    return {path: "/v1/completions", body: {prompt: said.map((turn) => turn.text).join(""), ...fields}};
  }
  const messages = said.map(({role, text}) => ({role, content: text}));
  const system = systemText();
  if (system) messages.unshift({role: "system", content: system});
  return {path: "/v1/chat/completions", body: {messages, ...fields}};
}

function setRunning(controller) {
  running = controller;
  turnsBox.setAttribute("aria-busy", String(controller !== null));
  byId("send").hidden = controller !== null;
  byId("stop").hidden = controller === null;
  for (const id of ["new-chat", "history"]) byId(id).disabled = controller !== null;
}

// Streams an answer into a turn.
async function fillTurn(turn, {path, body}) {
  const element = turnElement(turn);
  turnsBox.append(element);
  scrollToEnd();
  const words = element.querySelector(".words");
  words.textContent = "";
  const text = words.appendChild(document.createTextNode(""));
  let newest = null;
  const take = (piece, figures) => {
    newest = figures;
    const atEnd = turnsBox.scrollHeight - turnsBox.scrollTop - turnsBox.clientHeight < 40;
    turn.text += piece;
    text.appendData(piece);
    showFigures(figures);
    if (atEnd) scrollToEnd();
  };
  try {
    const {reason, figures} = await streamAnswer(path, body, running.signal, take);
    showFigures(figures);
    turn.note = noteOf(reason, figures);
  } catch (error) {
    turn.failed = error.name !== "AbortError";
    turn.note = turn.failed ? error.message : newest ? noteOf("abort", newest) : REASONS.abort;
  }
}

// Sends what is written, or lets a text without an addition go on.
async function sendMessage() {
  const text = message.value;
  const goesOn = !isChat && current.length > 0;
  if (running || (!text.trim() && !goesOn)) return;
  const said = text ? [...current, {role: "user", text}] : current;
  const request = requestFor(said);
  if (!request) return;
  message.value = "";
  current.splice(0, current.length, ...said);
  render();
  showFigures(null);
  setRunning(new AbortController());
  const turn = {role: "assistant", text: "", note: ""};
  await fillTurn(turn, request);
  current.push(turn);
  if (turn.failed && text) {  // what failed is sent again, or not at all
    said.at(-1).failed = true;
    message.value ||= text;
  }
  setRunning(null);
  render();
  onAnswered();
}

function newChat() {
  if (running) return;
  if (current.length) conversations.push([]);
  current = conversations.at(-1);
  render();
  showFigures(null);
  message.focus();
}

byId("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  sendMessage();
});
byId("stop").addEventListener("click", () => running?.abort());
byId("new-chat").addEventListener("click", newChat);
byId("history").addEventListener("change", (event) => {
  current = conversations[event.target.value];
  render();
});
message.addEventListener("keydown", (event) => {
  if (event.key === "Escape") running?.abort();
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  sendMessage();
});
