/** What the URL of the cluster view says: what is lost, by which rule, what is open, and searched. */
import { go, href, parse } from "../router.js";

/** {brokers, racks, rule, open, search} of a route. */
export function choiceOf({ query }) {
  return {
    brokers: [...new Set(query.getAll("lose").filter(id => /^\d+$/.test(id)).map(Number))],
    racks: [...new Set(query.getAll("lose-rack"))],
    rule: query.get("rule") || "kafka",
    open: [...new Set(query.getAll("open"))],
    search: query.get("topics") ?? "",
  };
}

/** The URL of a choice. */
export function choiceHref(choice) {
  return href([], {
    lose: choice.brokers, "lose-rack": choice.racks,
    rule: choice.rule === "kafka" ? "" : choice.rule, open: choice.open, topics: choice.search,
  });
}

/** Choose that as well, or no longer. */
export function toggle(name, value) {
  const choice = choiceOf(parse(location.hash));
  const held = choice[name];
  const next = held.includes(value) ? held.filter(each => each !== value) : [...held, value];
  go(choiceHref({ ...choice, [name]: next }));
}

/** The parameters of a question about what is lost. */
export const lossOf = ({ brokers, racks }) => ({ broker: brokers, rack: racks });

export const losesSomething = ({ brokers, racks }) => brokers.length + racks.length > 0;

/** The ids of all brokers that are lost. */
export function lostIds(choice, brokers) {
  const inRacks = brokers.filter(each => choice.racks.includes(each.rack));
  return new Set([...choice.brokers, ...inRacks.map(each => each.broker)]);
}
