/** How many there are in all, and the way to the pages before and behind. */
import { counted } from "../format.js";
import { html } from "../ui.js";

/** The page that a route names, from 0. */
export const pageOf = ({ query }) =>
  Math.max(0, Number.parseInt(query.get("page") ?? "0", 10) || 0);

/** Props: `total`, `what` is counted, `page`, `size` of a page, `to` a URL of a page's number. */
export function Pager({ total, what, page, size, to, isOld }) {
  const last = Math.max(0, Math.ceil(total / size) - 1);
  return html`<p class="pager" role="status">${counted(total, what)}${
    last > 0 && `, page ${page + 1} of ${last + 1}`}${isOld ? " …" : ""}
    ${page > 0 && html` <a href=${to(page - 1)} rel="prev">previous</a>`}
    ${page < last && html` <a href=${to(page + 1)} rel="next">next</a>`}</p>`;
}
