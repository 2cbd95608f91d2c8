/** Views have URLs of their own, behind `#`, so that they work below any path of a proxy. */

/** {path: ["partitions", "orders", "0"], query: URLSearchParams} of a hash. */
export function parse(hash) {
  const [path, query] = hash.replace(/^#?\/?/, "").split("?", 2);
  const parts = path.split("/").filter(Boolean).map(part => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  return { path: parts, query: new URLSearchParams(query ?? "") };
}

/** The hash of a path and a query; values that are empty are left out, lists are repeated. */
export function href(path, query = {}) {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== "" && each !== null && each !== undefined) parameters.append(name, each);
    }
  }
  const text = parameters.toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text && `?${text}`}`;
}

/**
 * Go there. Replacing leaves no entry in the history: for what is typed letter by letter. To set
 * `location.hash` would lay out the page first, to look for a place of that name to scroll to.
 */
export function go(to, { replace = false } = {}) {
  if (to === location.hash) return;
  history[replace ? "replaceState" : "pushState"](null, "", to);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

export const partitionHref = (topic, number) => href(["partitions", topic, String(number)]);

export const groupHref = name => href(["consumers", name]);
