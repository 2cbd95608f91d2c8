/** Light or dark: as the system has it, until somebody switches. */
import { Component, html } from "../ui.js";

const KEY = "kafka-twin-theme";
const NEXT = { system: "light", light: "dark", dark: "system" };

/** What was chosen on this machine. */
export function chosen() {
  try {
    const held = localStorage.getItem(KEY);
    return held in NEXT ? held : "system";
  } catch {
    return "system"; // storage may be switched off
  }
}

/** Show that theme. */
export function apply(theme) {
  document.documentElement.dataset.theme = theme;
}

export class ThemeSwitch extends Component {
  state = { theme: chosen() };

  switch = () => {
    const theme = NEXT[this.state.theme];
    try {
      localStorage.setItem(KEY, theme);
    } catch {
      // It holds until the page is left.
    }
    apply(theme);
    this.setState({ theme });
  };

  render(_, { theme }) {
    return html`<button type="button" class="quiet" onClick=${this.switch}
      title="Light, dark, or as the system has it">theme: ${theme}</button>`;
  }
}
