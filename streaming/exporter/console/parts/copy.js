/** A command, and a button that copies it. */
import { askedAbout } from "../past/when.js";
import { Component, html } from "../ui.js";

/** The command that asks about the moment that is shown; as it is, it asks about now. */
function ofMoment(text) {
  const at = askedAbout();
  const url = `${location.origin}${location.pathname}`.replace(/\/$/, "");
  return at ? `${text} --url ${quoted(url)} --at ${quoted(at)}` : text;
}

/** Props: `text`; `ofTool`: it is one of Kafka's own tools, which know of no other moment. */
export class Command extends Component {
  state = { copied: false };

  text = ({ text, ofTool }) => (ofTool ? text : ofMoment(text));

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
