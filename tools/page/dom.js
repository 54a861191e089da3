// Short forms of the DOM. Text gets into the page by textContent alone.

// Returns the element of an id.
export const byId = (id) => document.getElementById(id);

// Makes an element with properties and children. A child that is no node becomes text.
export function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

const whole = new Intl.NumberFormat("en", {maximumFractionDigits: 0});
const precise = new Intl.NumberFormat("en", {maximumSignificantDigits: 3});

// Returns a number with three digits, or with all digits of its whole part.
export const number = (value) => (Math.abs(value) >= 100 ? whole : precise).format(value);

// Returns a time with its unit.
export function duration(ms) {
  if (ms >= 1000) return `${number(ms / 1000)} s`;
  return ms >= 1 ? `${number(ms)} ms` : `${number(ms * 1000)} µs`;
}

// Returns a count and its word: "1 token", "2 tokens".
export const counted = (count, word) => `${whole.format(count)} ${word}${count === 1 ? "" : "s"}`;
