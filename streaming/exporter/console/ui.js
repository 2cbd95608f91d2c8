/** The two libraries, as every component uses them. Text reaches the page as text nodes only. */
import { Component, createRef, h, render } from "./vendor/preact.mjs";
import htm from "./vendor/htm.mjs";

export const html = htm.bind(h);
export { Component, createRef, render };
