/** Keys of the fleet's page: `/` filters, arrows lead from cluster to cluster, Enter opens it. */
export function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const search = document.getElementById("search");
  const isTyping = event.target === search;
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (event.key === "Escape" && isTyping) {
    search.blur();
  } else if (event.key === "/" && !isTyping) {
    event.preventDefault();
    search.focus();
  } else if (step) {
    const links = [...document.querySelectorAll("a.to-cluster")];
    const next = links[links.indexOf(document.activeElement) + step] ?? (step > 0 && links[0]);
    if (!next) return;
    event.preventDefault();
    next.focus();
  }
}
