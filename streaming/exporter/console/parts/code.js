/** Text of the API in which commands stand between backticks. */
import { html } from "../ui.js";

export const withCode = text =>
  text.split("`").map((part, i) => (i % 2 ? html`<code>${part}</code>` : part));
