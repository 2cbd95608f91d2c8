/** What is chosen of the fleet, all of it in the URL, and which clusters that leaves. */
import { href } from "../router.js";

/** With more clusters than these, those that have nothing to say are names only. */
const MANY = 30;

const QUIET = ["ok", "info"];

/** {group, q, rows} of a route: a label's name, a text, and `all` or `few`. */
export const choiceOf = ({ query }) => ({
  group: query.get("group") ?? "", q: query.get("q") ?? "", rows: query.get("rows") ?? "",
});

export const choiceHref = choice => href([], choice);

/** Whether each cluster has a row, by the choice, or else by how many there are. */
export const hasAllRows = ({ rows }, total) => (rows ? rows === "all" : total <= MANY);

export const isQuiet = ({ severity }) => QUIET.includes(severity);

/** Those with each of the words in name, labels, sentence or version. */
export function filtered(clusters, q) {
  const words = q.toLowerCase().split(/\s+/).filter(Boolean);
  return clusters.filter(each => {
    const text = [each.cluster, ...Object.values(each.labels), each.sentence, each.kafka_version]
      .join("\n").toLowerCase();
    return words.every(word => text.includes(word));
  });
}

/** [[value of that label, clusters]], the group of the worst first; one group without a label. */
export function grouped(clusters, label) {
  const groups = new Map();
  for (const each of clusters) {
    const value = label ? each.labels[label] ?? "" : "";
    if (!groups.has(value)) groups.set(value, []);
    groups.get(value).push(each);
  }
  return [...groups];
}

/** How many there are of each severity. */
export function bySeverity(clusters) {
  const counts = {};
  for (const { severity } of clusters) counts[severity] = (counts[severity] ?? 0) + 1;
  return counts;
}
