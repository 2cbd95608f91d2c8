/** Asks again and again while it is on the page, and hands each answer to its child. */
import { ask } from "./api.js";
import { Component } from "./ui.js";

const EVERY_MS = 3_000;
const AGAIN_AFTER_MS = 2_000; // if there was no answer

/**
 * Props: `url`, `every` in ms (0: once), `children`, a function of {answer, error, url}.
 * An answer stays while the next one is awaited; `url` in the state says what it answers.
 */
export class Poll extends Component {
  state = { answer: null, error: null, url: null };

  componentDidMount() {
    this.start();
    this.onVisible = () => document.hidden || this.start();
    document.addEventListener("visibilitychange", this.onVisible);
  }

  componentDidUpdate(before) {
    if (before.url !== this.props.url) this.start();
  }

  componentWillUnmount() {
    this.stop();
    document.removeEventListener("visibilitychange", this.onVisible);
  }

  stop() {
    clearTimeout(this.timer);
    this.running?.abort();
    this.running = null;
  }

  start() {
    this.stop();
    this.running = new AbortController();
    this.turn(this.props.url, this.running.signal);
  }

  async turn(url, signal) {
    let wait = this.props.every ?? EVERY_MS;
    try {
      const answer = await ask(url, signal);
      if (!signal.aborted) this.setState({ answer, error: null, url });
    } catch (error) {
      wait = Math.min(wait || AGAIN_AFTER_MS, AGAIN_AFTER_MS);
      if (!signal.aborted) this.setState(before => ({
        // An old answer to another question would be a wrong one.
        answer: before.url === url ? before.answer : null, error, url,
      }));
    }
    if (!signal.aborted && wait && !document.hidden) {
      this.timer = setTimeout(() => this.turn(url, signal), wait);
    }
  }

  render({ children }) {
    return children(this.state);
  }
}
