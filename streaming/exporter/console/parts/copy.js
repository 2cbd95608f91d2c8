/** A command, and a button that copies it. */
import { exporterUrl, thisCluster } from "../fleet/place.js";
import { askedAbout } from "../past/when.js";
import { Component, html } from "../ui.js";

/** The command that asks about this cluster, at the moment that is shown; else it asks about now. */
export function ofWhatIsShown(text) {
  const [cluster, at] = [thisCluster(), askedAbout()];
  return `${text}${cluster && ` --cluster ${quoted(cluster)}`}${
    at && ` --url ${quoted(exporterUrl())} --at ${quoted(at)}`}`;
}

/** Props: `text`; `asIs`: it is not about one cluster or moment, as Kafka's own tools know of neither. */
export class Command extends Component {
  state = { copied: false };

  text = ({ text, asIs }) => (asIs ? text : ofWhatIsShown(text));

  copy = async () => {
    try {
      await navigator.clipboard.writeText(this.text(this.props));
    } catch {
      // Without HTTPS browsers have no clipboard: the text is selected to be copied by hand.
      getSelection().selectAllChildren(this.base.querySelector("code"));
      return;
    }
    this.setState({ copied: true });
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.setState({ copied: false }), 1_500);
  };

  componentWillUnmount() {
    clearTimeout(this.timer);
  }

  render(props, { copied }) {
    const text = this.text(props);
    return html`<div class="command"><code>${text}</code>
      <button type="button" class="quiet" onClick=${this.copy} aria-label=${`Copy: ${text}`}>
        ${copied ? "copied" : "copy"}</button></div>`;
  }
}

/** A word of a command line, quoted where a shell would take it apart. */
export const quoted = word =>
  /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
