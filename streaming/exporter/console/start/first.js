/** What a console shows that has nothing to show yet: what has to run, and what is known of it. */
import { Command } from "../parts/copy.js";
import { html } from "../ui.js";

const ARRIVE = {
  true: ["its observations arrive", "good"], false: ["no observation arrives", "bad"],
  null: ["unknown whether observations arrive", "unknown"],
};

export function First({ summary }) {
  const { observations_arrive: arrive } = summary;
  const query = arrive ? ["observations wait for it", "bad"]
    : ["waits for observations", "unknown"];
  return html`<section class="card first" aria-labelledby="title">
    <h1 id="title">Nothing is known of any broker yet.</h1>
    <p>Three programs work together; all read the same <code>twin.toml</code>. The first answer takes about
      a minute from their start, and this page shows it by itself.</p>
    <ol class="programs">
      <${Program} name="Collector" what="Asks every broker, and writes what it answers to the bus."
        command="kafka-twin collector" state=${ARRIVE[arrive]} />
      <${Program} name="Query" what="Keeps the twin of each partition: a query of Spark Structured Streaming."
        command="kafka-twin query" state=${query} />
      <${Program} name="Exporter" what="Reads the twin from the bus, and shows it here."
        command="kafka-twin exporter" state=${["it answers", "good"]} />
    </ol>
    <p>This asks the cluster whether it has all that the twin needs, and names each setting and right that is
      missing:</p>
    <${Command} text="kafka-twin check" />
  </section>`;
}

function Program({ name, what, command, state: [text, state] }) {
  return html`<li><b>${name}</b>${" "}<span class=${`pill ${state}`}>${text}</span>
    <p>${what}</p><${Command} text=${command} asIs /></li>`;
}
