/** Sums over the counts of next leaders by outcome and coverage. */
const sum = counts => Object.values(counts ?? {}).reduce((total, each) => total + each, 0);

/** Partitions whose next leader has one of those outcomes. */
export const withOutcome = (outcomes, names) =>
  names.reduce((total, name) => total + sum(outcomes?.[name]), 0);

/** Partitions whose next leader has that coverage. */
export const withCoverage = (outcomes, name) =>
  Object.values(outcomes ?? {}).reduce((total, held) => total + (held[name] ?? 0), 0);

/** The counts of a broker under that rule; Kafka's where the proposal is switched off. */
export const lossesOf = (broker, rule) =>
  broker.loss_partitions?.[rule] ?? broker.loss_partitions?.kafka;
