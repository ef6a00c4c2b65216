// Requests to the service, and what can go wrong with them.

const TIMEOUT = 180_000;
const LONGEST_WAIT = 30;
const LONGEST_ARGUMENT = 100_000; // bytes

/** What a person can be told: a title, and problems with `field`, `message` and `hint`. */
export class Failure extends Error {
  constructor(title, problems = [], status = 0) {
    super(title);
    this.problems = problems;
    this.status = status;
  }
}

/** The address of an endpoint, whatever prefix the service has. */
export const addressOf = path => new URL(path, document.baseURI).href;

/**
 * The reply to a request; one that finds the service busy is sent a second time, as `waiting(seconds)` tells.
 * Without a body it is a GET. Throws Failure, or AbortError where `signal` stopped it.
 */
export async function ask(path, body, {key, signal, waiting}) {
  let reply = await send(path, body, key, signal);
  if ([429, 503].includes(reply.status)) {
    const asked = Number(reply.headers.get("Retry-After") ?? 1);
    if (asked <= LONGEST_WAIT) {
      waiting?.(asked);
      await pause(asked * 1000, signal);
      reply = await send(path, body, key, signal);
    }
  }
  const answer = await json(reply);
  if (reply.ok && answer !== undefined) return answer;
  throw new Failure(titleOf(reply), problemsOf(answer), reply.status);
}

async function send(path, body, key, signal) {
  const timer = new AbortController();
  const late = setTimeout(() => timer.abort(new DOMException("", "TimeoutError")), TIMEOUT);
  const headers = {Accept: "application/json"};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  try {
    if (key) headers.Authorization = `Bearer ${header(key)}`;
    const reply = await fetch(addressOf(path), {
      method: body === undefined ? "GET" : "POST",
      body: body === undefined ? undefined : JSON.stringify(body),
      headers,
      cache: "no-store",
      signal: signal ? AbortSignal.any([signal, timer.signal]) : timer.signal,
    });
    const content = await reply.arrayBuffer();
    return {status: reply.status, ok: reply.ok, headers: reply.headers, content};
  } catch (error) {
    if (error.name === "AbortError" || error instanceof Failure) throw error;
    if (error.name === "TimeoutError") {
      throw new Failure(`No answer within ${TIMEOUT / 1000} seconds`, [hint("send a shorter text")]);
    }
    throw new Failure("The service cannot be reached", [hint("is it running, and is there a network?")]);
  } finally {
    clearTimeout(late);
  }
}

/** The key as a header may hold it: bytes of its UTF-8. */
function header(key) {
  const bytes = String.fromCharCode(...new TextEncoder().encode(key.trim()));
  if (/[\0-\x1f\x7f]/.test(bytes)) throw new Failure("The API key has a control character in it", [], 401);
  return bytes;
}

function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new DOMException("", "AbortError"));
    });
  });
}

async function json(reply) {
  try {
    return JSON.parse(new TextDecoder().decode(reply.content));
  } catch {
    return undefined;
  }
}

function titleOf({status, ok}) {
  if (ok) return "The reply is not JSON: something else than the service answered";
  return {
    401: "The service asks for an API key",
    403: "The service refuses this request",
    408: "The service took too long",
    413: "More than the service takes",
    422: "The request cannot be answered",
    429: "Too many requests",
    503: "The service is busy or not ready",
  }[status] ?? `The service answered with status ${status}`;
}

function problemsOf(answer) {
  const detail = answer?.detail;
  if (typeof detail === "string") return [{field: "", message: detail, hint: ""}];
  return Array.isArray(detail) ? detail.filter(one => one && typeof one === "object") : [];
}

const hint = text => ({field: "", message: "", hint: text});

/** A request as a command of a shell. Where a key is used, its place is held by a variable. */
export function curl(path, body, needsKey) {
  const text = JSON.stringify(body);
  const lines = [`curl ${quoted(addressOf(path))}`, "-H 'Content-Type: application/json'"];
  if (needsKey) lines.push('-H "Authorization: Bearer $RAYNER_API_KEY"');
  // A longer argument is refused by the system.
  const isLong = new TextEncoder().encode(text).length > LONGEST_ARGUMENT;
  lines.push(isLong ? "--data-binary @- <<'JSON'" : `--data-raw ${quoted(text)}`);
  return lines.join(" \\\n  ") + (isLong ? `\n${text}\nJSON` : "");
}

const quoted = text => `'${text.replaceAll("'", "'\\''")}'`;
