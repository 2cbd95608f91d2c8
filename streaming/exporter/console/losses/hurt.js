/** Groups of consumers that a loss would hurt. */
import { bytes, count, counted } from "../format.js";
import { groupHref } from "../router.js";
import { html } from "../ui.js";

const SHOWN = 8;

export function HurtGroups({ groups, rule }) {
  if (!groups?.length) return null;
  return html`<h3>Whom it hurts</h3>
    <table class="list"><thead><tr><th scope="col">group</th><th scope="col">would</th></tr></thead>
    <tbody>${groups.slice(0, SHOWN).map(each => html`<tr key=${each.group}>
      <th scope="row"><a href=${groupHref(each.group)}>${each.group}</a></th><td class=${`would ${each.offline ? "bad" : "warn"}`}>${
        inWords(each, rule)}</td></tr>`)}</tbody></table>
    ${groups.length > SHOWN && html`<p class="muted">and ${
      counted(groups.length - SHOWN, "other group")}</p>`}`;
}

function inWords({ offline, ahead, nowhere, remote, remote_bytes: kafka, remote_bytes_by_rule: bytesBy,
  unknown }, rule) {
  const size = bytesBy?.[rule] ?? kafka;
  const parts = [];
  if (offline) parts.push(`not read ${counted(offline, "partition")}`);
  if (ahead) parts.push(`be ahead of ${counted(ahead, "log")}`);
  if (nowhere) parts.push(`be below the start of ${counted(nowhere, "log")}`);
  if (remote && size) parts.push(`read ${bytes(size)} remotely`);
  if (unknown) parts.push(`unknown for ${count(unknown)}`);
  return parts.join(", ") || "read nothing remotely by this rule";
}
