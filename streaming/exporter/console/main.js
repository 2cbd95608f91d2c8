/** Starts the console. */
import { App } from "./app.js";
import { apply, chosen } from "./parts/theme.js";
import { html, render } from "./ui.js";

apply(chosen());
const place = document.getElementById("app");
place.replaceChildren();
render(html`<${App} />`, place);
