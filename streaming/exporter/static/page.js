"use strict";
const outcomes = ["clean", "elr", "last_known", "unclean", "none"];
const words = { clean: "in sync", elr: "eligible (ELR)", last_known: "last known", unclean: "unclean", none: "nobody" };
const shade = { clean: "", elr: "warn", last_known: "bad", unclean: "bad", none: "bad" };
const held = { warm: "warm", cold: "cold", assumed: "taken as eligible", not_judged: "not judged" };
const sum = o => Object.values(o).reduce((a, b) => a + b, 0);
// The columns of the matrix: how many of a broker's partitions, from counts by outcome and coverage.
const columns = [...outcomes.map(o => [words[o], shade[o], l => sum(l[o])]),
  ["of these cold", "warn", l => sum(Object.values(l).map(c => c.cold ?? 0))],
  ["not judged", "", l => sum(Object.values(l).map(c => (c.not_judged ?? 0) + (c.assumed ?? 0)))]];
const next = n => ({ text: n.leader < 0 ? words.none : `${n.leader}, ${words[n.outcome] ?? "unknown"}, ${held[n.coverage] ?? "unknown"}`,
  shade: shade[n.outcome] || (n.coverage === "cold" ? "warn" : n.coverage === "warm" ? "good" : "") });
const text = v => v === null || v === undefined ? "unknown" : String(v);
const bytes = v => { if (v === null) return "unknown"; const u = ["B", "KiB", "MiB", "GiB", "TiB"]; let i = 0;
  while (v >= 1024 && i < 4) { v /= 1024; i++; } return v.toFixed(i ? 1 : 0) + " " + u[i]; };
function table(id, head, rows) {
  const t = document.getElementById(id); t.replaceChildren();
  const add = (cells, kind) => { const tr = t.insertRow();
    for (const c of cells) { const e = document.createElement(kind), v = c && c.text !== undefined ? c : { text: c };
      e.textContent = v.text; if (v.shade) e.className = v.shade; tr.append(e); } };
  add(head, "th"); rows.forEach(r => add(r, "td"));
}
async function get(path) { const r = await fetch("api/v1/" + path); return r.json(); }
async function draw() {
  try {
    const [s, b, p] = await Promise.all([get("summary"), get("brokers"), get("partitions?at_risk=true&limit=50")]);
    document.getElementById("name").textContent = s.cluster;
    const say = document.getElementById("say");
    say.textContent = s.up ? `Observed ${s.age_seconds.toFixed(1)} s ago.` : `Not up: ${s.why_not_up}.`;
    say.className = "say " + (s.up ? "good" : "bad");
    const open = s.replicas_coverage_not_judged, cold = n => open && open === s.replicas ? null : n;
    const cards = [["partitions", s.partitions], ["at risk", s.at_risk, "warn"], ["offline", s.partitions_offline, "bad"],
      ["under min ISR", s.partitions_under_min_isr, "bad"], ["cold leaders", cold(s.partitions_leader_cold), "warn"], ["cold replicas", cold(s.cold_replicas), "warn"]];
    document.getElementById("cards").replaceChildren(...cards.map(([n, v, c]) => { const d = document.createElement("div");
      d.className = "card"; const e = document.createElement("b"); e.textContent = v ?? "–"; if (v && c) e.className = c;
      if (!v) e.className = "zero"; d.append(e, n); return d; }));
    const record = { right: 0, wrong: 0, overtaken: 0, unforeseen: 0 };
    for (const by of Object.values(s.predictions ?? {})) for (const r in by) record[r] += by[r];
    const changes = Object.values(record).reduce((a, n) => a + n);
    const shown = document.getElementById("record");
    shown.textContent = !s.predictions ? "" : !changes ? "No leader has changed since the twin was started."
      : `${changes.toLocaleString("en")} leader change${changes === 1 ? "" : "s"}: ${record.right.toLocaleString("en")} as predicted, ${record.wrong} predicted wrong, ${record.overtaken} overtaken, ${record.unforeseen} unforeseen.`;
    shown.className = "say " + (record.wrong ? "bad" : "");
    const judged = document.getElementById("judged");
    judged.hidden = !open;
    judged.textContent = `${open === s.replicas ? "No threshold is set" : open + " of " + s.replicas + " replicas have no threshold"}, so nothing says `
      + "whether they are warm or cold. Set local_log_ms or local_log_bytes under [eligibility] in twin.toml; kafka-twin whatif threshold --grid helps to choose.";
    table("brokers", ["broker", "rack", "state", "leads", "local log", ...columns.map(c => c[0]), "then under min ISR"],
      b.brokers.map(x => [x.broker, text(x.rack),
        x.fenced ? { text: "fenced", shade: "bad" } : x.answered ? { text: "answers", shade: "good" } : { text: "silent", shade: "bad" },
        x.leaders, bytes(x.local_log_bytes),
        ...columns.map(([, c, count]) => { const k = count(x.loss_partitions.kafka), n = count(x.loss_partitions.kip1303 ?? x.loss_partitions.kafka);
          return { text: k === n ? k : `${k} (${n})`, shade: k || n ? c : "zero" }; }),
        { text: x.loss_under_min_isr_partitions, shade: x.loss_under_min_isr_partitions ? "bad" : "zero" }]));
    table("risks", ["partition", "leader", "ISR", "risks", "next leader", "under KIP-1303", "age"],
      p.partitions.map(x => { const k = x.next_leader, n = x.next_leader_kip1303 ?? k;
        return [`${x.topic}-${x.partition}`, x.leader < 0 ? { text: "none", shade: "bad" } : x.leader,
          x.replicas.filter(r => r.in_isr).map(r => r.broker).join(" ") || "–", x.risks.join(", ").replaceAll("_", " "),
          next(k), next(n),
          x.age_seconds === null ? "unknown" : x.age_seconds.toFixed(1) + " s"]; })
        .concat(p.total > p.partitions.length ? [[`and ${p.total - p.partitions.length} more`, "", "", "", "", "", ""]] : []));
  } catch (e) { const say = document.getElementById("say"); say.textContent = "The exporter does not answer."; say.className = "say bad"; }
}
draw(); setInterval(draw, 2000);
