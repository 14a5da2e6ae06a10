// Lists: figures over tasks, backbone against backbone, and every run with what its folder holds.

const bar = (estimate, lowest = 0) => {
  const at = (value) => `${Math.max(0, Math.min(100, 100 * (value - lowest) / (1 - lowest)))}%`;
  const line = element("span", {class: "bar", "aria-hidden": "true"});
  if (estimate.interval)
    line.append(element("i", {class: "interval", style:
      `left:${at(estimate.interval[0])};width:calc(${at(estimate.interval[1])} - ${at(estimate.interval[0])})`}));
  line.append(element("i", {class: "mean", style: `left:${at(estimate.value)}`}));
  return line;
};
const estimateCell = (estimate) => {
  const interval = intervalText(estimate.interval);
  return element("span", {class: "estimate"}, percent(estimate.value), interval ? element("small", {}, ` ${interval}`) : "");
};
const estimateColumn = (name, about, of) => ({name, about, value: (row) => of(row)?.value ?? null, cell: (row) => {
  const estimate = of(row);
  if (!estimate) return "-";
  return [estimateCell(estimate), bar(estimate)];
}});
const trusted = (estimate, labels, over) => {
  const few = over.some((task) => labels.some((label) => scoresOf(task, label).length < TRUSTED_RUNS));
  return estimate && few && data.runs.length ? {...estimate, interval: null} : estimate;
};

// The columns of a row's memory and, where there are several, of its learner.
const rowColumns = (name, labelOf) => [
  {name, text: true, value: (row) => memoryName(labelOf(row)), cell: (row) => memoryName(labelOf(row))},
  ...(learners.length > 1 ? [{name: "learner", text: true, value: (row) => learnerName(labelOf(row)),
                              cell: (row) => learnerName(labelOf(row))}] : [])];

const overTasksSection = () => {
  const shown = () => data.scores[chosen.score];
  if ((data.scores[Object.keys(data.scores)[0]]?.tasks.length ?? 0) < 2) return null;  // of one task there is no "over all"
  const of = (key) => (row) => trusted(row[key], [row.label], shown().tasks);
  const table = sortableTable([
    ...rowColumns("memory", (row) => row.label),
    estimateColumn("interquartile mean, %", "mean of all runs without the lowest and the highest quarter", of("interquartile_mean")),
    estimateColumn("mean, %", "mean of the tasks' means", of("mean")),
    estimateColumn("median of tasks, %", "median of the tasks' means", of("median")),
    estimateColumn("optimality gap, %", "how far below 100% the runs are: less is better", of("optimality_gap")),
  ], () => Object.entries(shown()?.methods ?? {}).filter(([label]) => memoryMatches(label))
    .map(([label, scores]) => ({label, ...scores})), {sort: learners.length > 1 ? 2 : 1, downwards: true,
                                            caption: "figures over tasks"});
  const about = element("p", {class: "about"});
  onChoice(["memory", "learner", "score"], () => {
    const of = shown()?.tasks ?? [];
    about.textContent = `Over ${counted(of.length, "task")}: ${of.join(", ")}. Columns that tell no memories apart, and ` +
      "tasks in which a memory has no run that counts, are left out.";
    table.show();
  });
  return section("over-tasks", "Over tasks", about, table.node);
};

const pairsSection = () => {
  const comparisons = Object.values(data.scores)[0]?.comparisons ?? [];
  if (!comparisons.length) return null;
  const over = Object.values(data.scores)[0].tasks;
  const both = comparisons.flatMap((pair) => [pair, {x: pair.y, y: pair.x, pairs: pair.pairs,
    probability_of_improvement: flipped(pair.probability_of_improvement, 1),
    paired_difference: pair.paired_difference ? flipped(pair.paired_difference, 0) : null}]);
  const select = element("select", {"aria-label": "memory x", onchange: () => table.show()});
  const best = Object.entries(Object.values(data.scores)[0].methods).filter(([label]) => !isControl(label))
    .sort(([, a], [, b]) => b.interquartile_mean.value - a.interquartile_mean.value)[0]?.[0];
  select.append(...[...new Set(both.map((pair) => pair.x))].map((label) =>
    element("option", {value: label, selected: label === best}, label)));
  const table = sortableTable([
    ...rowColumns("against", (row) => row.y),
    estimateColumn("probability that it is better, %", "that a run of it is better than one of the other, a tie counted half, mean over tasks",
                   (row) => trusted(row.probability_of_improvement, [row.x, row.y], over)),
    {name: "paired difference, points", about: "of runs of the same task and seed", value: (row) => row.paired_difference?.value ?? null,
     cell: (row) => row.paired_difference ? estimateCell(trusted(row.paired_difference, [row.x, row.y], over)) : "-"},
  ], () => both.filter((pair) => pair.x === select.value && memoryMatches(pair.y)),
    {sort: learners.length > 1 ? 2 : 1, most: 40, caption: "one memory against the others"});
  onChoice(["memory", "learner"], table.show);
  return section("pairs", "One memory against the others", element("p", {class: "turn"}, select), table.node);
};
const flipped = (estimate, around) => ({value: around - estimate.value,
  interval: estimate.interval ? [around - estimate.interval[1], around - estimate.interval[0]] : null});

const href = (path) => path.split("/").map((part) => part === ".." || part === "." ? part : encodeURIComponent(part)).join("/");
const runLinks = (run) => ["settings", "film", "log"].filter((key) => run.links?.[key]).map((key) =>
  element("a", {href: href(run.links[key])}, key));
const spaced = (nodes) => nodes.flatMap((node, i) => i ? [" ", node] : [node]);

const settingsOf = (run) => ({...taskOf.get(run.task)?.settings, ...memoryOf.get(run.backbone)?.settings});
const runDetails = (run) => {
  const facts = Object.entries(run).filter(([key, value]) => value !== null && value !== "" &&
    !["links", "evaluations", "task", "backbone", "seed", "control"].includes(key) && typeof value !== "object");
  const list = element("dl", {class: "facts"}, ...facts.flatMap(([key, value]) => [element("dt", {}, plainly(key)),
    element("dd", {}, typeof value === "number" ? count(value) : String(value))]));
  const settings = Object.entries(settingsOf(run));
  return [element("p", {}, element("b", {}, `${run.task} / ${run.backbone} / seed ${run.seed}`), "  ", ...spaced(runLinks(run))),
          list, settings.length ? element("pre", {}, settings.map(([key, value]) => `${key} = ${value}`).join("\n")) : ""];
};

const runsSection = () => {
  if (!data.runs.length) return null;
  const withLinks = data.runs.some((run) => run.links && Object.keys(run.links).length);
  const number = (name, key, text, about) => ({name, about, value: (row) => row[key], cell: (row) =>
    row[key] === null || row[key] === undefined ? "-" : text(row[key])});
  const stateOf = (run) => hasDiverged(run) ? "diverged" : run.state;
  const columns = [
    {name: "task", text: true, value: (row) => row.task, cell: (row) =>
      element("button", {type: "button", class: "open", "aria-expanded": "false"}, row.task)},
    ...rowColumns("memory", (row) => row.backbone),
    {name: "seed", value: (row) => row.seed, cell: (row) => String(row.seed)},
    {name: "state", text: true, value: stateOf, cell: stateOf},
    number("final success, %", "final_success", percent, "of the best weights on new episodes"),
    number("sampled, %", "sampled_success", percent, "the same with sampled actions"),
    number("return", "mean_return", (value) => value.toPrecision(4).replace(/\.?0+$/, "")),
    number("steps", "environment_steps", steps, "environment steps"),
    number("wall time", "wall_seconds", duration),
    ...(withLinks ? [{name: "folder", text: true, value: () => "", cell: (row) => spaced(runLinks(row))}] : []),
  ];
  const table = sortableTable(columns, () => data.runs.filter((run) => taskMatches(run.task) &&
    memoryMatches(run.backbone)), {most: 50, caption: "every run", onRow: (line, run, width) => {
    const button = line.querySelector("button.open");
    button.addEventListener("click", () => {
      const open = button.getAttribute("aria-expanded") === "true";
      button.setAttribute("aria-expanded", String(!open));
      if (open) line.nextSibling.remove();
      else line.after(element("tr", {class: "details"}, element("td", {colspan: width, class: "text"}, ...runDetails(run))));
    });
  }});
  onChoice(["family", "memory", "learner"], table.show);
  return section("runs", "Every run", element("p", {class: "about"}, "A click on a task shows all that is known of the run" +
    (withLinks ? "; settings, film and log are files beside this page." : ".")), table.node);
};
