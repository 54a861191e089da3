// Requests to the server. A route that asks for the API key gets it from the user once.

const KEY = "mkc-api-key";

// A ServerError is an answer that is an error, with the server's words.
export class ServerError extends Error {
  constructor(status, error) {
    super(error?.message ?? `the server answered ${status}`);
    this.status = status;
    this.code = error?.code ?? null;
  }
}

let askForKey = async () => {
  throw new Error("no one to ask for the key");
};
let asking = null;

// Sets the function that asks the user: it takes whether a key was refused, and resolves to a key.
export function setAskForKey(ask) {
  askForKey = ask;
}

async function getKey(refused) {
  asking ??= askForKey(refused).finally(() => (asking = null));
  sessionStorage.setItem(KEY, await asking);
}

async function errorOf(response) {
  const body = await response.json().catch(() => null);
  return new ServerError(response.status, body?.error);
}

// Sends a request, and again with a key where the server answers 401. Throws a ServerError for other errors.
export async function send(path, options = {}) {
  for (;;) {
    const key = sessionStorage.getItem(KEY);
    const headers = {...options.headers, ...(key && {Authorization: `Bearer ${key}`})};
    const response = await fetch(path, {...options, headers, cache: "no-store"});
    if (response.ok) return response;
    if (response.status !== 401) throw await errorOf(response);
    const isNewest = sessionStorage.getItem(KEY) === key;
    if (isNewest) await getKey(key !== null);
  }
}

export async function getJson(path) {
  return (await send(path)).json();
}

// Posts a body, and yields the objects of the stream that answers it. Throws a ServerError also for an error
// within the stream.
export async function* postStream(path, body, signal) {
  const headers = {"Content-Type": "application/json"};
  const response = await send(path, {method: "POST", headers, body: JSON.stringify(body), signal});
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const {value, done} = await reader.read();
    if (done) throw new ServerError(response.status, {message: "the connection broke off"});
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const data = event.slice("data: ".length);
      if (data === "[DONE]") return;
      const chunk = JSON.parse(data);
      if (chunk.error) throw new ServerError(response.status, chunk.error);
      yield chunk;
    }
  }
}
