// Puts the page together.

const themeButton = () => {
  const button = element("button", {type: "button", class: "theme", onclick: () => {
    const dark = getComputedStyle(document.documentElement).colorScheme === "dark" ||
      (document.documentElement.dataset.theme === undefined && matchMedia("(prefers-color-scheme: dark)").matches);
    document.documentElement.dataset.theme = dark ? "light" : "dark";
    redrawCharts();
  }}, "light / dark");
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redrawCharts());
  return button;
};

const chooser = (name, key, options) => {
  const select = element("select", {onchange: () => choose({[key]: select.value})}, ...options.map(([value, text]) =>
    element("option", {value, selected: chosen[key] === value}, text)));
  return element("label", {}, element("span", {}, name), select);
};

const toolbar = () => {
  const families = [...new Set(tasks.map((task) => familyOf(task.label)))];
  const scores = Object.keys(data.scores);
  const search = element("input", {type: "search", placeholder: "all", value: chosen.memory, list: "memories",
                                   oninput: () => choose({memory: search.value})});
  const bar = element("div", {class: "toolbar", role: "search"},
    families.length > 1 ? chooser("Tasks", "family", [["", "all"], ...families.map((name) => [name, name])]) : null,
    element("label", {}, element("span", {}, "Memories"), search),
    element("datalist", {id: "memories"}, ...[...new Set(memories.map(({label}) => memoryName(label)))].map((value) => element("option", {value}))),
    learners.length > 1 ? chooser("Learner", "learner", [["", "all"], ...learners.map((name) => [name, name])]) : null,
    learners.length > 1 ? chooser("Rows by", "group", [["learner", "learner"], ["memory", "memory"], ["none", "success alone"]])
      : null,
    scores.length > 1 ? chooser("Score", "score", scores.map((key) => [key, plainly(key)])) : null, themeButton());
  return bar;
};

const liveBanner = () => {
  const live = data.live;
  if (!live) return null;
  setTimeout(() => location.reload(), 1000 * live.next_seconds);
  return element("div", {class: "live", role: "status"},
    element("p", {}, element("b", {}, live.headline), ` As of ${live.time}; this page renews itself.`),
    element("progress", {max: 1, value: live.done, "aria-label": "done"}),
    live.running.length ? element("ul", {}, ...live.running.map((run) => element("li", {}, element("span", {}, run.name),
      element("progress", {max: 1, value: run.done, "aria-label": run.name}),
      element("span", {class: "quiet"}, run.text)))) : null);
};

const build = () => {
  document.body.append(tooltip);
  const place = document.getElementById("charts"), top = document.getElementById("top");
  const live = liveBanner();
  if (live) top.append(live);
  for (const table of document.querySelectorAll("main table")) makeSortable(table);
  if (!Object.keys(data.scores).length) return;
  if (!tasks.some((task) => task.label === chosen.task)) chosen.task = "";
  if (!data.scores[chosen.score]) chosen.score = defaults.score;
  place.append(toolbar());
  for (const part of [matrixSection, taskSection, sweepSections, overTasksSection, pairsSection, runsSection])
    place.append(...[part()].flat().filter(Boolean));
  // What is folded away is printed, too.
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const details of folded) details.open = true;
    redrawCharts();
  });
  addEventListener("afterprint", () => { for (const details of folded) details.open = false; });
};
build();
