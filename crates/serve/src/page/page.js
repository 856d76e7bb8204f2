"use strict";
// Asks the accountant about the plan that the controls and the text show. No number is computed here.

const at = (id) => document.getElementById(id);
const token = new URLSearchParams(location.search).get("token") || "";
const LOG_STEPS = 400;
const RANGES = {
  "sampling.epochs": () => [1, 10000],
  "sampling.batch": (values) => [1, Math.max(2, values.records)],
  "privacy.noise_multiplier": () => [0.05, 100],
  "privacy.epsilon": () => [0.01, 100],
  "privacy.delta": () => [1e-12, 1e-2],
};
let plan = null;      // the plan as TOML; null is the one that the page was started with
let shown = null;     // the last answer
let waiting = null;   // a question to ask once the last is answered
let asking = false;

// Sends a question, in JSON unless it is a picture; without one, only looks.
const ask = async (what, question) => {
  const picture = question instanceof Blob;
  const headers = { Authorization: `Bearer ${token}` };
  if (question) headers["Content-Type"] = picture ? "application/octet-stream" : "application/json";
  const response = await fetch(`api/${what}`, { method: question ? "POST" : "GET", headers, body: picture ? question : question && JSON.stringify(question) });
  if (!response.ok && response.status !== 422) throw { problem: response.status === 413 ? "this is too large" : `the server answered ${response.status}`, hint: null };
  const answer = await response.json();
  if (!response.ok) throw answer;
  return answer;
};

// Prices the plan with some keys changed. While an answer is awaited, only the newest question is kept.
const price = async (set = {}, unset = [], text = plan) => {
  waiting = { plan: text, set: { ...(waiting && waiting.plan === text ? waiting.set : {}), ...set }, unset };
  if (asking) return;
  asking = true;
  while (waiting) {
    const question = waiting;
    waiting = null;
    if (question.plan === null) delete question.plan;
    try {
      shown = await ask("price", question);
      plan = shown.toml;
      show();
    } catch (error) {
      complain(error);
    }
  }
  asking = false;
};

const complain = (error) => {
  tellProblem(at("problem"), error);
  at("levels").classList.add("stale");
};

const tellProblem = (problem, error) => {
  problem.textContent = error.problem || "the server does not answer any more";
  if (error.hint) {
    const hint = document.createElement("span");
    hint.textContent = error.hint;
    problem.append(hint);
  }
  problem.hidden = false;
};

const brief = (value) => (value === 0 || (Math.abs(value) >= 0.001 && Math.abs(value) < 1e6) ? String(Number(value.toPrecision(4))) : Number(value.toPrecision(4)).toExponential());

const LEVELS = { patch: "the private patch", replace: "a whole record, exchanged", "add-remove": "whether a record is there", masked: "the private tokens", user: "a whole user" };

const show = () => {
  at("problem").hidden = true;
  at("levels").classList.remove("stale");
  at("levels").replaceChildren(...shown.levels.map((level) => {
    const card = document.createElement("div");
    card.className = "level";
    card.style.borderTopColor = `var(--${level.paint})`;
    const title = document.createElement("h2");
    title.textContent = `epsilon for ${LEVELS[level.relation] || level.relation}`;
    const value = document.createElement("strong");
    value.textContent = level.epsilon ? `≤ ${level.epsilon.shown}` : "too large";
    const bracket = document.createElement("p");
    bracket.textContent = level.epsilon ? `certified bracket ${level.epsilon.shown_lower} to ${level.epsilon.shown}` : level.problem;
    const protects = document.createElement("p");
    protects.textContent = level.protects && `Protects ${level.protects}.`;
    card.append(title, value, bracket, protects);
    return card;
  }));
  showControls();
  const rates = shown.rates;
  const facts = [
    ["steps", rates.steps],
    ["a record is drawn", `with probability ${brief(rates.sample_rate)} a step`],
    ["a crop sees the region", `with probability ${brief(rates.inclusion_probability)}`],
    ["a step sees the region", `with probability ${brief(rates.effective_rate)}`],
    ["noise multiplier", brief(rates.noise_multiplier) + (shown.solved ? " (solved for the budget)" : "")],
    ["delta", brief(rates.delta)],
    ["sensitivity", `${rates.sensitivity} clip norms`],
    ["plan hash", shown.plan_hash],
  ];
  at("rates").replaceChildren(...facts.flatMap(([name, value]) => {
    const term = document.createElement("dt");
    const said = document.createElement("dd");
    term.textContent = name;
    said.textContent = value;
    return [term, said];
  }));
  if (document.activeElement !== at("toml")) at("toml").value = shown.toml;
  at("theorem").textContent = shown.theorem;
  at("assumptions").replaceChildren(...shown.assumptions.map((text) => {
    const item = document.createElement("li");
    item.textContent = text;
    return item;
  }));
  later("coverage", 60, drawCoverage);
  later("curve", 200, drawCurve);
};

const timers = {};
const later = (name, wait, job) => {
  clearTimeout(timers[name]);
  timers[name] = setTimeout(job, wait);
};

// Controls

const valueOf = (key) => {
  const values = shown.values;
  return {
    "pipeline.image": values.image, "pipeline.crop": values.crop, "region.patch": values.patch, "sampling.records": values.records,
    "sampling.batch": values.batch, "sampling.epochs": values.epochs || Math.max(1, Math.round(values.steps * shown.rates.sample_rate)),
    "privacy.noise_multiplier": values.noise_multiplier, "privacy.epsilon": values.epsilon || 1, "privacy.delta": values.delta,
  }[key];
};

const showControls = () => {
  const byBudget = shown.solved !== null;
  at("given-noise").checked = !byBudget;
  at("given-epsilon").checked = byBudget;
  for (const control of document.querySelectorAll(".control")) {
    const { key, shape } = control.dataset;
    const input = control.querySelector("input");
    const value = valueOf(key);
    const apart = (key === "privacy.noise_multiplier" && byBudget) || (key === "privacy.epsilon" && !byBudget);
    control.hidden = value === null || apart;
    if (control.hidden || (document.activeElement === input && input.type === "text")) continue;
    if (shape === "size") input.value = value.join("x");
    if (shape === "count") input.value = value;
    if (shape === "side") {
      input.min = 1;
      input.max = shown.values.image ? Math.min(...shown.values.image) : 4096;
      if (document.activeElement !== input || !asking) input.value = Math.max(...value);
      tell(control, value[0] === value[1] ? `${value[0]} pixels` : `${value.join(" × ")} pixels`, input);
    }
    if (shape === "log") {
      const [low, high] = RANGES[key](shown.values);
      input.min = 0;
      input.max = LOG_STEPS;
      if (!(document.activeElement === input && waiting)) input.value = Math.round(LOG_STEPS * Math.log(value / low) / Math.log(high / low));
      tell(control, brief(value), input);
    }
  }
};

const tell = (control, text, input) => {
  control.querySelector("output").textContent = text;
  input.setAttribute("aria-valuetext", text);
};

const moved = (control) => {
  if (!shown) return;
  const { key, shape, whole } = control.dataset;
  const input = control.querySelector("input");
  let value = input.value;
  if (shape === "log") {
    const [low, high] = RANGES[key](shown.values);
    value = low * (high / low) ** (input.value / LOG_STEPS);
    value = whole ? Math.max(1, Math.round(value)) : Number(value.toPrecision(3));
  }
  price({ [key]: String(value) }, key === "sampling.epochs" ? ["sampling.steps"] : []);
};

for (const control of document.querySelectorAll(".control")) {
  const input = control.querySelector("input");
  input.addEventListener(input.type === "range" ? "input" : "change", () => moved(control));
}
at("controls").addEventListener("submit", (event) => event.preventDefault());
at("given-noise").addEventListener("change", () => price({ "privacy.noise_multiplier": String(shown.rates.noise_multiplier) }));
at("given-epsilon").addEventListener("change", () => {
  const own = shown.levels[0].epsilon;
  price(shown.values.epsilon ? {} : { "privacy.epsilon": own ? String(Number(own.upper.toPrecision(3))) : "1" }, ["privacy.noise_multiplier"]);
});

// The map of what crops see

let photograph = null;
let coverage = null;

const drawCoverage = async () => {
  try {
    coverage = await ask("coverage", { plan });
    at("coverage").hidden = false;
    paint();
  } catch {
    at("coverage").hidden = true;
  }
};

const paint = () => {
  const canvas = at("map");
  const [width, height] = coverage.image;
  canvas.width = 960;
  canvas.height = Math.max(1, Math.round(960 * height / width));
  const pen = canvas.getContext("2d");
  pen.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--grid");
  pen.fillRect(0, 0, canvas.width, canvas.height);
  if (photograph) pen.drawImage(photograph, 0, 0, canvas.width, canvas.height);
  const small = document.createElement("canvas");
  small.width = coverage.columns;
  small.height = coverage.rows;
  const cells = small.getContext("2d");
  const pixels = cells.createImageData(coverage.columns, coverage.rows);
  coverage.values.forEach((value, index) => pixels.data.set([183, 60, 30, Math.round(value * 0.72)], 4 * index));
  cells.putImageData(pixels, 0, 0);
  pen.imageSmoothingEnabled = true;
  pen.drawImage(small, 0, 0, canvas.width, canvas.height);
  const scale = canvas.width / width;
  const outline = (size, colour) => {
    if (!size) return;
    pen.strokeStyle = colour;
    pen.lineWidth = 3;
    pen.strokeRect((width - size[0]) / 2 * scale, (height - size[1]) / 2 * scale, size[0] * scale, size[1] * scale);
  };
  outline(shown.values.crop, "#2b6cb0");
  outline(shown.values.patch, "#fff");
  const words = `A crop sees the region with probability ${brief(coverage.most)} where the image is darkest; the outlines are a crop and the region.`;
  at("map-words").textContent = words;
  canvas.setAttribute("aria-label", words);
};

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (coverage) paint(); });

const take = async (file) => {
  if (!file || !file.type.startsWith("image/")) return;
  try {
    photograph = await createImageBitmap(file);
    if (coverage) paint();
  } catch {
    at("map-words").textContent = "This file is no picture that the browser can show.";
  }
};
at("photo").addEventListener("change", (event) => take(event.target.files[0]));
for (const kind of ["dragover", "dragleave", "drop"]) {
  at("map").addEventListener(kind, (event) => {
    event.preventDefault();
    at("map").classList.toggle("over", kind === "dragover");
    if (kind === "drop") take(event.dataTransfer.files[0]);
  });
}

// The curve

const drawCurve = async () => {
  try {
    const { svg } = await ask("curve", { plan, over: at("over").value });
    at("drawing").innerHTML = svg;
  } catch (error) {
    at("drawing").textContent = error.problem ? `No curve: ${error.problem}.` : "";
  }
};
at("over").addEventListener("change", drawCurve);

// The plan as text and as a link

const written = (text) => btoa(String.fromCharCode(...new TextEncoder().encode(text))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
const read = (text) => new TextDecoder().decode(Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0)));
const copy = async (text, said) => {
  try {
    await navigator.clipboard.writeText(text);
    at("copied").textContent = said;
  } catch {
    at("toml").focus();
    at("toml").select();
    at("copied").textContent = "The browser does not allow it: copy the marked text.";
  }
};
at("use").addEventListener("click", () => price({}, [], at("toml").value));
at("copy").addEventListener("click", () => copy(plan || "", "The plan is copied."));
at("link").addEventListener("click", () => {
  location.hash = written(plan || "");
  copy(location.href, "The link is copied. It works as long as this page is served.");
});

const begin = () => {
  let text = null;
  if (location.hash.length > 1) {
    try {
      text = read(location.hash.slice(1));
    } catch {
      complain({ problem: "the link holds no plan", hint: "ask for it again, or begin with the plan shown here" });
    }
  }
  price({}, [], text);
};
window.addEventListener("hashchange", () => { if (written(plan || "") !== location.hash.slice(1)) begin(); });
begin();
