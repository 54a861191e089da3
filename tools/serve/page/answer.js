// One answer of the model: the request, its stream, and its figures.

import {postStream} from "./api.js";

const textOf = (choice) => choice?.delta?.content ?? choice?.text ?? "";

// Meter counts tokens and takes their times. A chunk of a stream has one token, until the usage has the
// count.
class Meter {
  begin = performance.now();
  first = null;
  last = null;
  tokens = 0;
  usage = null;

  addToken() {
    this.last = performance.now();
    this.first ??= this.last;
    this.tokens += 1;
  }

  addUsage(usage) {
    this.usage = usage;
    this.tokens = usage.completion_tokens;
  }

  // Returns milliseconds to the first token, tokens a second behind it, and counts. Unknown ones are null.
  figures() {
    const seconds = (this.last - this.first) / 1000;
    return {
      firstTokenMs: this.first === null ? null : this.first - this.begin,
      rate: seconds > 0 ? (this.tokens - 1) / seconds : null,
      tokens: this.tokens,
      promptTokens: this.usage?.prompt_tokens ?? null,
      cachedTokens: this.usage?.prompt_tokens_details?.cached_tokens ?? 0,
    };
  }
}

// Streams an answer. `onText` gets each piece of text with the figures so far. Returns why the answer ended,
// and the figures. Throws what postStream() throws, and an AbortError once the signal aborts.
export async function streamAnswer(path, body, signal, onText) {
  const meter = new Meter();
  let reason = null;
  const request = {...body, stream: true, stream_options: {include_usage: true}};
  for await (const chunk of postStream(path, request, signal)) {
    if (chunk.usage) meter.addUsage(chunk.usage);
    const choice = chunk.choices[0];
    if (!choice) continue;
    reason = choice.finish_reason ?? reason;
    meter.addToken();
    onText(textOf(choice), meter.figures());
  }
  return {reason, figures: meter.figures()};
}
