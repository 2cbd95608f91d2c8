/** Starts the page of all clusters. */
import { apply, chosen } from "../parts/theme.js";
import { html, render } from "../ui.js";
import { FleetPage } from "./page.js";

apply(chosen());
const place = document.getElementById("app");
place.replaceChildren();
render(html`<${FleetPage} />`, place);
