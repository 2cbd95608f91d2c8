/** The cluster at a glance: which broker can be lost, and what happens if it is. */
import { LossPanel } from "../losses/panel.js";
import { Waiting } from "../parts/failed.js";
import { Later } from "../parts/later.js";
import { Switch } from "../parts/switch.js";
import { First } from "../start/first.js";
import { html } from "../ui.js";
import { BrokerTable } from "./brokers.js";
import { choiceHref, choiceOf, losesSomething } from "./choice.js";
import { Disks } from "./disks.js";
import { Matrix } from "./matrix.js";
import { ClusterRisks } from "./risks.js";
import { Sentence } from "./sentence.js";
import { NotJudged, Totals } from "./totals.js";

const TABLE_AFTER_MS = 150; // it stands below the matrix, and takes as long to draw

export function ClusterView({ route, pulse }) {
  const { summary, brokers } = pulse;
  if (!summary) return pulse.error ? null : html`<${Waiting} what="Reading the newest snapshot" />`;
  if (!summary.up && !brokers.length) return html`<${First} summary=${summary} />`;
  const choice = choiceOf(route);
  const severities = Object.fromEntries(Object.entries(summary.risks).map(
    ([name, { severity }]) => [name, severity]));
  const rules = summary.election_rules;
  return html`
    <div class="columns">
      <div class="grow">
      <section class="card" aria-label="Topics by brokers">
        <${Sentence} brokers=${brokers} summary=${summary} rule=${choice.rule} />
        <${Matrix} brokers=${brokers} choice=${choice} severities=${severities}>
          ${Object.keys(rules).length > 1 && html`<${RuleSwitch} choice=${choice} rules=${rules} />`}<//>
        <${NotJudged} summary=${summary} />
      </section>
      <${Later} wait=${TABLE_AFTER_MS}>${() => html`<${BrokerTable} brokers=${brokers} rules=${rules} />
        <${Disks} />`}<//>
      </div>
      <div class="side">
        ${losesSomething(choice) ? html`<${LossPanel} choice=${choice} rules=${rules} />` : html`<${Hint} />`}
        <${ClusterRisks} risks=${summary.cluster_risks} />
        <section class="card" aria-label="Totals"><${Totals} summary=${summary} /></section>
      </div>
    </div>`;
}

function RuleSwitch({ choice, rules }) {
  return html`<span class="elects"><span class="muted">elects by</span>
    <${Switch} label="Rule of election" options=${Object.entries(rules).map(([rule, name]) =>
      [choiceHref({ ...choice, rule }), name, choice.rule === rule])} /></span>`;
}

function Hint() {
  return html`<section class="card panel"><h2>What if …?</h2>
    <p>Click a broker or a rack, or several: they are taken as lost. The replicas that would lead
      then are ringed, and what nobody would lead is red. Nothing is changed in Kafka.</p>
    <p class="muted">A square is a replica: click it to open its partition, or the name of a topic to
      list its partitions.</p></section>`;
}
