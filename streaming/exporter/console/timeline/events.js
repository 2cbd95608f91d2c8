/** A list of events, the newest first, as they come. */
import { counted } from "../format.js";
import { Failed, Waiting } from "../parts/failed.js";
import { Time } from "../parts/time.js";
import { chosen } from "../past/moment.js";
import { askedAbout, isPast } from "../past/when.js";
import { partitionHref } from "../router.js";
import { Component, html } from "../ui.js";
import { inWords } from "../words.js";
import { PastEvents } from "./pages.js";
import { EventStream } from "./stream.js";

/** How grave an event is to look at, by its kind or by what it says of itself. */
const STATES = {
  risk_opened: "warn", risk_closed: "good", broker_fenced: "bad", broker_unregistered: "bad",
  broker_silent: "warn", broker_answers: "good", broker_unfenced: "good",
};

/** Props: `parameters` of the API, `wanted`, a function of an event, `most` that are shown. */
export class Events extends Component {
  componentDidMount() {
    const { parameters = {} } = this.props;
    const changed = () => this.forceUpdate();
    // Of the past all events can be read; of the present those that come, and some before them.
    this.stream = isPast() ? new PastEvents(parameters, changed, askedAbout())
      : new EventStream(parameters, changed);
    this.forceUpdate();
  }

  componentDidUpdate() {
    const { wanted = () => true, most } = this.props;
    if (!this.stream.error) this.stream.need?.(wanted, most);
  }

  componentWillUnmount() {
    this.stream.stop();
  }

  render({ wanted = () => true, most, children }) {
    const { stream } = this;
    if (!stream) return null;
    const events = stream.events.filter(wanted);
    const nothing = stream.isReading && !events.length;
    return html`${children?.(stream.events)}
      <${Failed} error=${stream.error} />
      ${!stream.isReading && !stream.error && html`<${Waiting} what="Asking for events" />`}
      ${stream.missed && html`<p class="warn">Some events were missed: more happened than is kept.</p>`}
      ${stream.isCut && html`<p class="warn">Of older events, the API has the pages.</p>`}
      ${chosen() && html`<p class="muted">What happened after the moment that is shown is left out.</p>`}
      ${nothing && html`<p class="muted">Nothing has happened that the exporter still knows of.</p>`}
      ${events.length > 0 && html`<div class="wide" tabindex="0" role="region" aria-label="Events">
        <table class="list events"><thead><tr><th scope="col">when</th><th scope="col">what</th>
          <th scope="col">kind</th><th scope="col">partition</th></tr></thead>
        <tbody>${events.slice(0, most).map(each => html`<${Line} key=${each.id} event=${each} />`)}
        </tbody></table></div>`}
      ${events.length > most && html`<p class="muted">and ${
        counted(events.length - most, "older one")}</p>`}`;
  }
}

function Line({ event }) {
  const { at_ms: at, text, kind, topic, partition } = event;
  const isOf = topic && partition >= 0;
  return html`<tr><td><${Time} ms=${at} /></td><td class=${`text ${STATES[kind] ?? ""}`}>${text}</td>
    <td>${inWords(kind)}</td>
    <th scope="row">${isOf && html`<a href=${partitionHref(topic, partition)}>${topic}-${partition}</a>`}</th>
    </tr>`;
}
