// The page: what is asked of the service, and what is done with its answers.

import {Failure, ask, curl} from "./api.js";
import {element, field, name} from "./dom.js";
import {model, modelAsked, offerModels} from "./models.js";
import {candidates, definition, number, showMore, showResult} from "./result.js";
import {slider} from "./sliders.js";
import {length} from "./text.js";
import {addType, resetTypes, setTypes, typeFields, typesAsked} from "./types.js";

const LARGEST_FILE = 4 << 20;
const POINTS = {
  never: "never NIL",
  high_recall: "high recall",
  accuracy: "accuracy",
  high_precision: "high precision",
};

const shift = slider("shift", value => (value > 0 ? "+" : "") + Number(value.toFixed(3)));
const point = slider("point", place => POINTS[points[place]] ?? "");
const topK = slider("top-k", String);
let points = ["never"];
let service;
let running;
let isFinding = false;
let isLookingUp = false;
let opened = {shown: "", text: ""};

// What the service offers

async function connect() {
  field("problem").hidden = true;
  await busy("Asking the service what it offers …", async signal => {
    offer(await ask("v1/models", undefined, options(signal)));
    field("status").textContent = "";
  });
}

function offer(found) {
  // What was chosen and written meanwhile stays where nothing else is offered than before.
  if (JSON.stringify(found) === JSON.stringify(service)) return;
  service = found;
  offerModels(found);
  offerModel();
}

function offerModel() {
  const recognizer = model()?.recognizer;
  const bases = Object.keys(service.knowledge_bases);
  const others = model()?.stages.filter(({stage}) => stage === "contexts" || stage === "types") ?? [];
  const words = [recognizer && `${recognizer.task}, ${counted(recognizer.types.length, "type")}`,
    ...others.map(({stage, task}) => `${stage}: ${task}`),
    ...bases.map(base => `${base}: ${counted(service.knowledge_bases[base].entities, "entity", "entities")}`)];
  field("service").textContent = words.filter(Boolean).join(" · ");
  if (service.failed_change) field("service").textContent += " · the last change of models failed";
  const takes = option => recognizer?.options.includes(option);
  field("ask").hidden = !recognizer;
  field("types-part").hidden = !takes("types");
  field("finding-part").hidden = !takes("shift");
  field("linking-part").hidden = !bases.length;
  field("curl-part").hidden = !recognizer;
  field("lookup").hidden = !bases.length;
  if (recognizer) setTypes(recognizer.types);
  if (takes("shift")) shift.reset(recognizer.shift ?? 0);
  const linked = model()?.linked ?? [];
  const asConfigured = linked.length ? [["", `as configured: ${linked.join(", ")}`]] : [];
  const none = recognizer && bases.length ? [["none", "none: do not link"]] : [];
  choose("base", [...asConfigured, ...bases.map(base => [`=${base}`, base]), ...none]);
  choose("lookup-base", bases.map(base => [base, base]));
  offerLinking();
  changed();
}

function choose(id, choices) {
  field(id).replaceChildren(...choices.map(([value, text]) => element("option", {value}, text)));
}

/** The operating points of the knowledge bases that are linked to, and what is theirs without being asked. */
function offerLinking() {
  const named = baseAsked() ?? model()?.linked ?? [];
  const chosen = [named].flat().map(base => service.knowledge_bases[base]).filter(Boolean);
  const bases = chosen.length ? chosen : Object.values(service.knowledge_bases);
  if (!bases.length) return;
  points = Object.keys(POINTS).filter(
    one => one === "never" || bases.every(base => base.operating_points.includes(one)));
  field("point-field").hidden = points.length < 2;
  point.limit(points.length - 1);
  point.reset(Math.max(0, points.indexOf(bases[0].operating_point)));
  topK.reset(bases[0].top_k);
}

const counted = (count, one, many = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

// What is asked

/** The knowledge base to link to: null for none, undefined where the service has it configured. */
function baseAsked() {
  const value = field("base").value;
  if (value === "none") return null;
  return value.startsWith("=") ? value.slice(1) : undefined;
}

const operatingPoint = () => (point.value === undefined ? undefined : points[point.value]);

/** A field has line ends of its own; those of a file that was opened count in the offsets of its mentions. */
function textAsked() {
  const {value} = field("text");
  return value === opened.shown ? opened.text : value;
}

function request() {
  const isLinking = Object.keys(service.knowledge_bases).length > 0 && baseAsked() !== null;
  const {recognizer, stages} = model();
  const takes = option => recognizer.options.includes(option);
  const body = {
    documents: [{text: textAsked()}],
    model: modelAsked(),
    types: takes("types") ? typesAsked() : undefined,
    shift: takes("shift") ? shift.value : undefined,
    overlap: takes("overlap") ? field("overlap").value || undefined : undefined,
    contexts: stages.some(stage => stage.stage === "contexts") || undefined,
  };
  if (!isLinking) return {path: "v1/recognize", body};
  return {path: "v1/annotate", body: {...body, knowledge_base: baseAsked(), ...choice()}};
}

const choice = () => ({top_k: topK.value, operating_point: operatingPoint()});

const options = signal => ({
  key: field("key").value,
  signal,
  waiting: seconds => {
    field("status").textContent = `The service is busy; trying once more in ${counted(seconds, "second")} …`;
  },
});

// Asking

async function run() {
  if (!service) await connect();
  if (!model()) return;
  const {path, body} = request();
  if (!body.documents[0].text.trim()) return refuse("No text", {
    field: "documents.0.text", message: "nothing is in it", hint: "paste a text"});
  if (body.types?.length === 0) return refuse("No types", {
    field: "types", message: "none to look for", hint: "add a type, or reset them"});
  await busy("Finding mentions …", async signal => {
    isFinding = true;
    const reply = await ask(path, body, options(signal));
    const document = reply.documents[0];
    const linked = Object.keys(reply.versions.knowledge_bases).reverse();
    const baseOf = type => linked.find(base => links(service.knowledge_bases[base], type));
    const lookUp = Object.keys(service.knowledge_bases).length
      ? mention => lookUpMention(mention.text, baseOf(mention.type)) : undefined;
    const types = (body.types ?? model().recognizer.types).map(type => type.name);
    showResult(body.documents[0].text, document, reply, types, lookUp);
    const read = counted(document.windows, "window");
    field("status").textContent = `${counted(document.mentions.length, "mention")} found, ${read} read.`;
  });
}

/** Says why nothing is asked; what was asked before is no answer to it. */
function refuse(title, problem) {
  running?.abort();
  fail(new Failure(title, [problem]));
}

/** Whether mentions of a type are linked to a knowledge base. */
const links = (base, type) => base && (!base.types.length || base.types.includes(type));

async function lookUp() {
  const knowledge_base = field("lookup-base").value;
  const body = {mentions: [field("mention").value], knowledge_base, ...choice()};
  // The slider has the points of the knowledge bases that are linked to, which this one may lack.
  const has = ["never", ...service.knowledge_bases[knowledge_base].operating_points];
  if (!has.includes(body.operating_point)) body.operating_point = undefined;
  const isInstead = isFinding;
  await busy("Looking it up …", async signal => {
    isLookingUp = true;
    const {answers: [answer]} = await ask("v1/standardize", body, options(signal));
    field("status").textContent = isInstead ? "The search for mentions was stopped." : "";
    field("found").replaceChildren(...found(answer));
  });
}

function lookUpMention(text, base) {
  // A field of one line would leave line ends out.
  field("mention").value = text.replace(/\s+/g, " ");
  if (base) field("lookup-base").value = base;
  field("lookup").scrollIntoView({block: "nearest"});
  field("mention").focus();
  lookUp();
}

function found(answer) {
  const entity = answer.entity_id === null
    ? [element("strong", {}, "NIL"), `: ${answer.reason}`]
    : [element("strong", {}, name(answer.name)), " ", element("code", {}, name(answer.entity_id))];
  const rows = [
    ["Entity", element("span", {}, ...entity)],
    typeof answer.probability === "number" && answer.candidates.length &&
      ["First candidate is right with", `${(100 * answer.probability).toFixed(1)} %`],
    answer.margin !== null && ["Ahead of the next by", number(answer.margin)],
    answer.candidates.length && ["Candidates", candidates(answer.candidates)],
  ];
  return [element("h3", {}, name(answer.mention)), element("dl", {}, ...rows.filter(Boolean).flatMap(definition))];
}

/** Does some work in the place of what runs. */
async function busy(what, work) {
  running?.abort();
  const mine = new AbortController();
  running = mine;
  isFinding = isLookingUp = false;
  clearProblem();
  field("status").textContent = what;
  field("stop").hidden = false;
  field("answer").setAttribute("aria-busy", "true");
  try {
    await work(mine.signal);
  } catch (error) {
    if (running !== mine) return;
    const isStopped = error.name === "AbortError";
    field("status").textContent = isStopped ? "Stopped." : "";
    if (!service) field("service").textContent = "";
    if (!isStopped) fail(error);
    else if (!service) fail(new Failure("The service was not asked what it offers"));
  } finally {
    if (running === mine) {
      running = undefined;
      isFinding = false;
      field("stop").hidden = true;
      field("answer").removeAttribute("aria-busy");
    }
  }
}

// What went wrong

function fail(error) {
  clearProblem();
  const isOurs = error instanceof Failure;
  const problems = isOurs ? error.problems : [{message: String(error)}];
  const lines = problems.map(one => {
    const said = [one.message, one.hint].filter(Boolean).map(String).join("; ");
    return element("li", {}, one.field ? element("strong", {}, name(String(one.field)), ": ") : null, said);
  });
  field("problem").replaceChildren(
    element("p", {}, element("strong", {}, isOurs ? error.message : "The page has an error")),
    ...(lines.length ? [element("ul", {}, ...lines)] : []));
  if ([401, 403].includes(error.status)) {
    field("key-part").open = true;
    mark(field("key"));
  }
  problems.map(one => fieldOf(String(one.field ?? ""))).filter(Boolean).forEach(mark);
  if (!service) {
    field("problem").append(element("button", {type: "button", onclick: connect}, "Try again"));
  }
  field("problem").hidden = false;
  field("problem").scrollIntoView({block: "nearest"});
}

/** The field of the page that a field of the request comes from. */
function fieldOf(path) {
  const [part, place, inner] = path.split(".");
  if (part === "types" && place !== undefined) {
    const fields = typeFields(Number(place));
    return fields && (inner === "name" ? fields.name : fields.description);
  }
  const id = {documents: "text", model: "model", types: "add-type", shift: "shift", overlap: "overlap",
    knowledge_base: isLookingUp ? "lookup-base" : "base", top_k: "top-k", operating_point: "point", mentions: "mention"}[part];
  return id && field(id);
}

function mark(input) {
  input.setAttribute("aria-invalid", "true");
  input.closest("details")?.setAttribute("open", "");
  input.scrollIntoView({block: "nearest"});
}

function clearProblem() {
  field("problem").hidden = true;
  for (const input of document.querySelectorAll("[aria-invalid]")) input.removeAttribute("aria-invalid");
}

// What the person does

/** The command follows whatever is asked. */
function changed() {
  field("count").textContent = counted(length(textAsked()), "character");
  field("copied").textContent = "";
  if (!model() || !field("curl-part").open) return;
  const {path, body} = request();
  field("curl").value = curl(path, body, Boolean(field("key").value));
}

async function read(file) {
  try {
    if (file.size > LARGEST_FILE) throw new Failure(`The file is over ${LARGEST_FILE >> 20} MB`);
    const text = new TextDecoder("utf-8", {fatal: true}).decode(await file.arrayBuffer());
    if (text.includes("\0")) throw new Failure("The file is binary, or UTF-16");
    field("text").value = text;
    opened = {shown: field("text").value, text};
    clearProblem();
    changed();
  } catch (error) {
    fail(error instanceof Failure ? error : new Failure("The file cannot be read as UTF-8 text"));
  }
}

async function copy() {
  field("curl").select();
  try {
    await navigator.clipboard.writeText(field("curl").value);
    field("copied").textContent = "Copied.";
  } catch {
    field("copied").textContent = document.execCommand("copy") ? "Copied." : "Press Ctrl+C to copy.";
  }
}

const again = () => {
  changed();
  if (!field("result").hidden && !field("ask").hidden) run();
};
const on = (id, event, act) => field(id).addEventListener(event, act);

on("run", "click", run);
on("stop", "click", () => running?.abort());
on("more", "click", showMore);
on("add-type", "click", addType);
on("reset-types", "click", () => {
  resetTypes();
  changed();
});
on("types", "input", changed);
on("types", "change", changed);
on("text", "input", changed);
on("key", "input", changed);
on("curl-part", "toggle", changed);
on("copy", "click", copy);
on("use-key", "click", connect);
on("key", "keydown", event => event.key === "Enter" && connect());
on("text", "keydown", event => event.key === "Enter" && (event.ctrlKey || event.metaKey) && run());
for (const id of ["shift", "overlap", "point", "top-k"]) on(id, "change", again);
on("model", "change", () => {
  offerModel();
  again();
});
on("base", "change", () => {
  offerLinking();
  again();
});
on("reset-finding", "click", () => {
  shift.reset();
  field("overlap").value = "";
  again();
});
on("reset-linking", "click", () => {
  field("base").selectedIndex = 0;
  offerLinking();
  again();
});
on("lookup-form", "submit", event => {
  event.preventDefault();
  lookUp();
});
on("file", "change", () => {
  const [file] = field("file").files;
  // So that the same file, changed meanwhile, can be opened again.
  field("file").value = "";
  if (file) read(file);
});
on("text", "dragover", event => event.preventDefault());
on("text", "drop", event => {
  const [file] = event.dataTransfer.files;
  if (!file) return;
  event.preventDefault();
  read(file);
});

// A narrow window has no room for all options beside the text.
if (matchMedia("(max-width: 50rem)").matches) {
  for (const part of document.querySelectorAll("#options details")) part.open = false;
}
connect();
