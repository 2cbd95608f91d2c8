/** Topics by brokers. Rows that are out of sight are not drawn, and their topics not asked for. */
import { counted } from "../format.js";
import { Failed, Waiting } from "../parts/failed.js";
import { go } from "../router.js";
import { steady } from "../parts/steady.js";
import { Component, createRef, html } from "../ui.js";
import { choiceHref, losesSomething, lossOf, lostIds } from "./choice.js";
import { Heads, inRacks } from "./heads.js";
import { Pages } from "./pages.js";
import { Row } from "./rows.js";
import { Legend } from "./square.js";

const ROW_PX = 30;
const BEYOND = 8; // rows drawn above and below those in sight, once these are there
const SQUARE_PX = 18;
const LEAST_PX = 24; // of a column: more brokers are scrolled to
const NAMES_PX = 190;
const NAMES_ON_PHONE_PX = 118;
const ON_PHONE = "(max-width: 40rem)";
const MOST_LISTED = 64;

export class Matrix extends Component {
  state = { from: 0, inSight: 20, width: 0 };
  scroller = createRef();

  componentDidMount() {
    this.follow(this.props.choice);
    this.sizes = new ResizeObserver(() => this.look());
    this.sizes.observe(this.scroller.current);
  }

  /** The question is on its way while the page is drawn with what was clicked. */
  componentWillReceiveProps({ choice }) {
    if (questionOf(choice) !== questionOf(this.props.choice)) this.follow(choice);
  }

  componentDidUpdate() {
    if (this.drawn && !this.hasDrawn) {
      this.hasDrawn = true;
      requestAnimationFrame(() => setTimeout(this.look));
    }
  }

  componentWillUnmount() {
    this.pages.stop();
    this.sizes.disconnect();
  }

  /** Ask for what the URL names. What is on the page stays until there is an answer. */
  follow(choice) {
    this.pages?.stop();
    const question = {
      search: choice.search, loss: lossOf(choice), open: choice.open,
      // Partitions of topics that have more would find no room as squares.
      listed: Math.min(MOST_LISTED, this.room() * this.props.brokers.length),
      wanted: this.pages?.wanted,
    };
    const pages = new Pages(question, () => {
      this.drawn = pages;
      this.forceUpdate();
    });
    this.pages = pages;
  }

  /** Pixels of a column. */
  column() {
    this.width ||= this.scroller.current?.clientWidth ?? 0; // to ask for it is to lay out the page
    const brokers = Math.max(this.props.brokers.length, 1);
    return Math.max(LEAST_PX, (this.width - namesPx()) / brokers);
  }

  /** Squares that a cell has room for. */
  room() {
    return Math.max(1, Math.floor((this.column() - 12) / SQUARE_PX));
  }

  look = () => {
    const place = this.scroller.current;
    if (!place) return; // the view was left
    const beyond = this.hasDrawn ? BEYOND : 0;
    const from = Math.max(0, Math.floor(place.scrollTop / ROW_PX) - beyond);
    // Until the first rows are there the scroller has no height.
    const inSight = Math.max(20, Math.ceil(place.clientHeight / ROW_PX) + 2 * beyond);
    const width = this.width = place.clientWidth;
    const { state } = this;
    if (from !== state.from || inSight !== state.inSight || width !== state.width) {
      this.setState({ from, inSight, width });
    }
  };

  ids = steady();
  lost = steady();
  severities = steady();

  render({ brokers, choice, severities, children }, { from, inSight }) {
    const columns = inRacks(brokers);
    const ids = this.ids(columns.map(each => each.broker));
    const lost = this.lost([...lostIds(choice, brokers)].sort());
    const drawn = this.drawn;
    const { rows, count } = drawn ? drawn.rows(from, from + inSight) : { rows: [], count: 0 };
    const places = rows.filter(row => row.place !== undefined).map(row => row.place);
    if (places.length) this.pages.show(places[0], places.at(-1) + 1);
    const width = this.column();
    const shared = {
      choice, ids, lost, width, room: this.room(), severities: this.severities(severities),
    };
    return html`<div class="matrix">
      <div class="over"><${Search} choice=${choice} total=${drawn?.total} />${children}</div>
      <div class="scroller" ref=${this.scroller} onScroll=${this.look} tabindex="0" role="region"
        aria-label="Topics by brokers">
        <table style=${{ minWidth: `${namesPx() + LEAST_PX * columns.length}px` }}><caption class="unseen">What each topic's replicas are, by broker</caption>
          <colgroup><col />${columns.map(({ broker, answered }) => html`<col
            class=${lost.includes(broker) ? "lost" : answered ? "" : "silent"} />`)}</colgroup>
          <${Heads} brokers=${columns} choice=${choice} lost=${lost} width=${width} />
          <tbody>
            <${Spacer} rows=${from} />
            ${rows.map(row => html`<${Row} key=${keyOf(row)} row=${row} ...${shared} />`)}
            <${Spacer} rows=${Math.max(0, count - from - inSight)} />
          </tbody>
        </table>
        ${!drawn && html`<${Waiting} what="Asking for the topics" />`}
        ${drawn && !drawn.total && html`<p class="muted">No topic${
          choice.search ? " has that in its name" : " is known yet"}.</p>`}
      </div>
      <${Failed} error=${drawn?.error} />
      <${Legend} shown=${shownIn(rows)} loses=${losesSomething(choice)} />
    </div>`;
  }
}

/** Pixels of the names of topics, as the style sheet has them. */
const namesPx = () => (matchMedia(ON_PHONE).matches ? NAMES_ON_PHONE_PX : NAMES_PX);

const questionOf = ({ brokers, racks, open, search }) =>
  JSON.stringify([brokers, racks, open, search]);

const keyOf = row => (row.partition ? `${row.topic.topic}/${row.partition.partition}`
  : row.topic?.topic ?? row.place);

/** Holds the place of rows that are not drawn. */
function Spacer({ rows }) {
  return rows > 0 && html`<tr aria-hidden="true"><td class="spacer"
    style=${{ height: `${rows * ROW_PX}px` }}></td></tr>`;
}

/** The names of squares in those rows. */
function shownIn(rows) {
  const names = new Set();
  for (const { topic } of rows) {
    for (const counts of Object.values(topic?.brokers ?? {})) {
      for (const name of Object.keys(counts)) names.add(name);
    }
  }
  return names;
}

function Search({ choice, total }) {
  const search = event => go(choiceHref({ ...choice, search: event.target.value.trim() }),
    { replace: true });
  return html`<input type="search" class="topics" value=${choice.search} onInput=${search}
      placeholder="topics whose name contains …" aria-label="Topics whose name contains" />
    <span class="muted" role="status">${total !== null && total !== undefined
      && counted(total, "topic")}, the worst first</span>`;
}
