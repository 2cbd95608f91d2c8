/**
 * The past moment that the console shows. It is in the URL before the `#`, `?at=2026-11-24T03:12:00Z`,
 * so that it stays when another view is chosen, and can be sent to somebody.
 */
const NAME = "at";

/** As it is in the URL; empty for the newest moment. */
export const chosen = () => new URLSearchParams(location.search).get(NAME) ?? "";

/** A Unix time in ms as the API reads it. */
export const textOf = ms => new Date(ms).toISOString();

/** Show that moment, or the newest one for null, in the same view. */
export function choose(ms, { replace = false } = {}) {
  const query = new URLSearchParams(location.search);
  if (ms === null) query.delete(NAME);
  else query.set(NAME, textOf(ms));
  const text = query.toString().replaceAll("%3A", ":");
  const to = `${location.pathname}${text && `?${text}`}${location.hash}`;
  if (to === location.pathname + location.search + location.hash) return;
  history[replace ? "replaceState" : "pushState"](null, "", to);
  dispatchEvent(new PopStateEvent("popstate"));
}
