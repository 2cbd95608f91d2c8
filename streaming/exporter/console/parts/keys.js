/** Keys that work in every view, and the list of them behind `?`. */
import { ALL_CLUSTERS } from "../fleet/place.js";
import { go } from "../router.js";
import { TOUR } from "../start/tour.js";
import { Component, createRef, html } from "../ui.js";

const LIST = [
  ["/", "search"], ["g c", "cluster"], ["g p", "partitions"], ["g n", "consumers"], ["g o", "losses of two"], ["g r", "plans: restarts"],
  ["g l", "timeline"], ["g t", "twin"], ...(ALL_CLUSTERS ? [["g a", "all clusters"]] : []),
  ["← →", "on the bar of moments: to the previous, the next change"],
  ["Space", "on the bar of moments: play, pause"],
  ["Esc", "leave the search; lose nothing"], ["?", "these keys"],
];
const GO = { c: "#/", p: "#/partitions", n: "#/consumers", o: "#/losses", r: "#/plans", l: "#/timeline", t: "#/twin" };

class Listener {
  awaitsView = false;
  shows = () => {};

  pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.closest?.("input, select, textarea");
    if (event.key === "Escape") {
      if (typing) typing.blur();
      else if (location.hash.includes("lose")) go("#/");
      return;
    }
    if (typing) return;
    if (this.awaitsView && GO[event.key]) go(GO[event.key]);
    if (this.awaitsView && event.key === "a" && ALL_CLUSTERS) location.assign(ALL_CLUSTERS);
    this.awaitsView = event.key === "g";
    if (event.key === "/") {
      event.preventDefault();
      document.getElementById("search").focus();
    } else if (event.key === "?") {
      this.shows();
    }
  }
}

export const KEYS = new Listener();

export class Keys extends Component {
  dialog = createRef();

  componentDidMount() {
    KEYS.shows = () => this.dialog.current.showModal();
  }

  render() {
    return html`<dialog ref=${this.dialog} aria-labelledby="keys-title">
      <h2 id="keys-title">Keys</h2>
      <dl class="keys">${LIST.map(([key, what]) => html`
        <div><dt><kbd>${key}</kbd></dt><dd>${what}</dd></div>`)}</dl>
      <form method="dialog" class="controls"><button>Close</button>${" "}
        <button onClick=${() => TOUR.start()}>Take the tour</button></form>
    </dialog>`;
  }
}
