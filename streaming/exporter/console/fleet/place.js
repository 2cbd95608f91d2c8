/** Where this console stands among several clusters; alone, it stands nowhere. */

/** The way to the page of all clusters, relative; empty if there is none. */
export const ALL_CLUSTERS = document.documentElement.dataset.fleet ?? "";

/** The name of this cluster as `--cluster` takes it; empty if there is no other. */
export const thisCluster = () =>
  (ALL_CLUSTERS ? decodeURIComponent(location.pathname.split("/").at(-2)) : "");

/** Where the exporter is, for `--url`. */
export const exporterUrl = () =>
  new URL(ALL_CLUSTERS || location.pathname, location.href).href.replace(/\/$/, "");
