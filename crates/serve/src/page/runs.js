"use strict";
// Lists, starts, watches, stops, resumes and compares runs, and asks their models. Every order that spends privacy is confirmed with its epsilon.

let opened = null;       // the name of the run that is shown
let watching = null;    // ends the watch over it
let marked = new Set(); // the runs that are compared
let canStart = false;

const STANDING = { beginning: "begins", running: "trains", elsewhere: "trains, started elsewhere", stopped: "stopped; can be resumed", finished: "finished", refused: "was refused", unreadable: "cannot be trusted" };

const troubled = async (job) => {
  at("runs-problem").hidden = true;
  try {
    return await job();
  } catch (error) {
    tellProblem(at("runs-problem"), error);
    return null;
  }
};

const part = (name) => {
  for (const each of ["explore", "runs"]) {
    at(each).hidden = each !== name;
    if (each === name) at(`to-${each}`).setAttribute("aria-current", "page");
    else at(`to-${each}`).removeAttribute("aria-current");
  }
  if (name === "runs") look();
};
at("to-explore").addEventListener("click", () => part("explore"));
at("to-runs").addEventListener("click", () => part("runs"));

// The list

// A cell says its column itself where columns stand beneath each other.
const cell = (label, ...content) => {
  const made = document.createElement("td");
  made.setAttribute("role", "cell");
  made.dataset.label = label;
  made.append(...content);
  return made;
};
const number = (label, text) => {
  const made = cell(label, text);
  made.className = "number";
  return made;
};

const score = (run) => (run.evaluations.length ? run.evaluations[run.evaluations.length - 1].score.toFixed(4) : "");

const row = (run) => {
  const made = document.createElement("tr");
  const mark = document.createElement("input");
  mark.type = "checkbox";
  mark.checked = marked.has(run.name);
  mark.disabled = !run.evaluations.length;
  mark.setAttribute("aria-label", `compare ${run.name}`);
  mark.addEventListener("change", () => {
    if (mark.checked) marked.add(run.name);
    else marked.delete(run.name);
    compare();
  });
  const name = document.createElement("button");
  name.type = "button";
  name.textContent = run.name;
  name.disabled = run.standing === "unreadable";
  name.addEventListener("click", () => showRun(run.name, true));
  const steps = run.planned_steps ? `${run.steps} of ${run.planned_steps}` : String(run.steps);
  made.setAttribute("role", "row");
  made.append(cell("compare", mark), cell("run", name), cell("stands", STANDING[run.standing] + (run.problem ? `: ${run.problem}` : "")), number("steps", steps));
  made.append(number("epsilon spent", run.epsilon ? `≤ ${run.epsilon}` : "0"), number("of", run.planned_epsilon || ""), number("score", score(run)));
  return made;
};

const look = () => troubled(async () => {
  const list = await ask("runs");
  canStart = list.can_start;
  at("start").disabled = !canStart;
  const own = shown && shown.levels[0].epsilon;
  at("start-words").textContent = canStart
    ? `Trains the plan as Explore shows it${own ? `, which costs an epsilon of at most ${own.shown} at delta ${brief(shown.rates.delta)}` : ""}. Data, weights and masks stay those that the server was started with.`
    : "This server was given no plan to train. Start dapple serve with a plan that has sections data, model and optimiser.";
  at("table").tBodies[0].replaceChildren(...list.runs.map(row));
  at("table").hidden = !list.runs.length;
  at("no-runs").hidden = list.runs.length > 0;
});

const compare = () => troubled(async () => {
  if (!marked.size) return at("comparison").replaceChildren();
  const { svg } = await ask("compare", { runs: [...marked] });
  at("comparison").innerHTML = svg;
});

// One run

const card = (title, value, detail, paint) => {
  const made = document.createElement("div");
  made.className = "level";
  if (paint) made.style.borderTopColor = `var(--${paint})`;
  const [head, number, small] = ["h2", "strong", "p"].map((name) => document.createElement(name));
  head.textContent = title;
  number.textContent = value;
  small.textContent = detail;
  made.append(head, number, small);
  return made;
};

const tellRun = (run) => {
  at("run-name").textContent = run.name;
  const steps = run.planned_steps ? `${run.steps} of ${run.planned_steps} steps count as taken` : `${run.steps} steps`;
  at("run-standing").textContent = `${STANDING[run.standing]}; ${steps}${run.problem ? `. ${run.problem}` : ""}`;
  at("run-progress").value = run.planned_steps ? run.steps / run.planned_steps : 0;
  at("stop").disabled = !["running", "elsewhere"].includes(run.standing);
  at("resume").disabled = run.standing !== "stopped";
  at("resume").dataset.epsilon = run.planned_epsilon || "";
  at("resume").dataset.protects = run.protects || "";
  const cards = [];
  if (run.planned_epsilon) cards.push(card(`epsilon spent for ${LEVELS[run.relation] || run.relation}`, run.epsilon ? `≤ ${run.epsilon}` : "0", `of ${run.planned_epsilon} at delta ${run.delta}. Protects ${run.protects}.`, run.paint));
  if (run.record_epsilon) cards.push(card(`epsilon spent for ${LEVELS.replace}`, `≤ ${run.record_epsilon}`, "by the same steps, if a whole record is exchanged", run.record_paint));
  if (run.measure) cards.push(card(run.measure, score(run), `after step ${run.evaluations[run.evaluations.length - 1].step}`));
  at("run-levels").replaceChildren(...cards);
  at("run-warnings").replaceChildren(...run.warnings.map((text) => {
    const item = document.createElement("li");
    item.textContent = text;
    return item;
  }));
};

const drawRun = async (run) => {
  if (!run.evaluations.length) return at("run-drawing").replaceChildren();
  try {
    const { svg } = await ask("compare", { runs: [run.name] });
    if (opened === run.name) at("run-drawing").innerHTML = svg;
  } catch {
    at("run-drawing").replaceChildren();
  }
};

// Follows a run until nothing more will change. Events come over a fetch, because an EventSource cannot send the token in a header.
const showRun = async (name, focus) => {
  if (watching) watching.abort();
  const watch = new AbortController();
  [watching, opened] = [watch, name];
  at("run").hidden = false;
  at("answer").replaceChildren();
  at("report").open = false;
  if (focus) at("run-name").focus();
  let evaluations = -1;
  try {
    const response = await fetch(`api/runs/${encodeURIComponent(name)}/events`, { headers: { Authorization: `Bearer ${token}` }, signal: watch.signal });
    if (!response.ok) throw { problem: `the server answered ${response.status}` };
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let heard = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      heard += value;
      const events = heard.split("\n\n");
      heard = events.pop();
      for (const event of events) {
        const run = JSON.parse(event.replace(/^data: /, ""));
        tellRun(run);
        if (run.evaluations.length !== evaluations) drawRun(run);
        evaluations = run.evaluations.length;
      }
    }
    look();
  } catch (error) {
    if (error.name !== "AbortError") tellProblem(at("runs-problem"), error);
  }
};

// Asks whether an epsilon may be spent.
const confirmed = (words, protects, epsilon) => new Promise((answer) => {
  at("confirm-words").textContent = words;
  at("confirm-protects").textContent = protects && `It protects ${protects}.`;
  at("agree").textContent = `Spend an epsilon of at most ${epsilon}`;
  const dialog = at("confirm");
  const close = (agreed) => {
    dialog.onclose = null;
    dialog.close();
    answer(agreed);
  };
  at("agree").onclick = () => close(true);
  at("refuse").onclick = () => close(false);
  dialog.onclose = () => answer(false);
  dialog.showModal();
  at("refuse").focus();
});

at("start").addEventListener("click", () => troubled(async () => {
  const priced = await ask("price", plan === null ? {} : { plan });
  const own = priced.levels[0];
  if (!own.epsilon) throw { problem: "this plan has no price, so it is not started" };
  const words = `This trains ${priced.rates.steps} steps on ${priced.values.records} records and spends an epsilon of at most ${own.epsilon.shown} at delta ${brief(priced.rates.delta)}.`;
  if (!(await confirmed(words, own.protects, own.epsilon.shown))) return;
  const run = await ask("runs", { asked: plan === null ? {} : { plan }, confirmed: { epsilon: own.epsilon.shown } });
  await look();
  showRun(run.name, true);
}));

at("stop").addEventListener("click", () => troubled(async () => {
  at("stop").disabled = true;
  await ask(`runs/${encodeURIComponent(opened)}/stop`, {});
}));

at("resume").addEventListener("click", () => troubled(async () => {
  const name = opened;
  const { epsilon, protects } = at("resume").dataset;
  if (!(await confirmed(`This takes the steps of ${name} that are left. The whole run spends an epsilon of at most ${epsilon}.`, protects, epsilon))) return;
  await ask(`runs/${encodeURIComponent(name)}/resume`, { epsilon });
  showRun(name, true);
}));

// Asking the model

const said = (answer) => {
  const made = [];
  if (answer.overlay) {
    const image = document.createElement("img");
    image.src = `data:image/png;base64,${answer.overlay}`;
    image.alt = "The picture, each pixel in the colour of its class";
    made.push(image);
  }
  const list = document.createElement("ol");
  for (const { name, share, colour } of answer.classes) {
    const item = document.createElement("li");
    if (colour) {
      const swatch = document.createElement("span");
      swatch.className = "swatch";
      swatch.style.background = colour;
      item.append(swatch);
    }
    item.append(`${name}: ${(100 * share).toFixed(1)} %`);
    list.append(item);
  }
  made.push(list);
  at("answer").replaceChildren(...made);
};

const askModel = (file) => troubled(async () => {
  if (!file) return;
  at("answer").textContent = "The model looks at the picture …";
  try {
    said(await ask(`runs/${encodeURIComponent(opened)}/predict`, file));
  } catch (error) {
    at("answer").replaceChildren();
    throw error;
  }
});
at("picture").addEventListener("change", (event) => askModel(event.target.files[0]));
for (const kind of ["dragover", "dragleave", "drop"]) {
  at("drop").addEventListener(kind, (event) => {
    event.preventDefault();
    at("drop").classList.toggle("over", kind === "dragover");
    if (kind === "drop") askModel(event.dataTransfer.files[0]);
  });
}

at("report").addEventListener("toggle", () => {
  if (at("report").open) troubled(async () => { at("report").querySelector("iframe").srcdoc = await ask(`runs/${encodeURIComponent(opened)}/report`); });
});
