/** A risk's section of the runbook, with the commands for what it is about. */
import { Poll } from "../poll.js";
import { Component, html } from "../ui.js";
import { withCode } from "./code.js";
import { Failed, Waiting } from "./failed.js";

const STEPS = { confirm: "Confirm", do: "Do", harmless: "Harmless" };

/** Props: `name` of the risk, `at`, the URL of the sections, which are fetched when it is opened. */
export class WhatToDo extends Component {
  state = { open: false };

  render({ name, at }, { open }) {
    return html`<details class="runbook" onToggle=${event => this.setState({ open: event.currentTarget.open })}>
      <summary>What to do</summary>
      ${open && html`<${Poll} url=${at} every=${0}>${({ answer, error }) => (answer
        ? html`<${Section} section=${answer.sections.find(each => each.risk === name)} />`
        : error ? html`<${Failed} error=${error} />` : html`<${Waiting} what="Asking" />`)}<//>`}
    </details>`;
  }
}

function Section({ section }) {
  if (!section) return html`<p>The risk has closed meanwhile.</p>`;
  return html`${section.meaning.map(text => html`<p>${withCode(text)}</p>`)}
    <dl>${section.steps.map(({ step, text }) => html`<dt>${STEPS[step]}</dt>
      <dd>${withCode(text)}</dd>`)}</dl>`;
}
