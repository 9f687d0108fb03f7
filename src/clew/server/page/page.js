// Signs in, and shows who is signed in and the newest sessions, as plain text. Text from the store only ever
// becomes text: nothing here writes markup.
"use strict";

const root = document.querySelector("meta[name='clew-root']").content;
const who = document.getElementById("who");
const list = document.getElementById("list");
const enter = document.getElementById("enter");
const leave = document.getElementById("leave");

const given = new URLSearchParams(location.hash.slice(1));
const once = given.get("once");
const share = given.get("share");
if (once !== null) {
  // The code is used up in a moment; it need not stay in the address, nor in the history.
  history.replaceState(null, "", location.pathname + location.search);
}

async function ask(method, path, body) {
  const headers = {};
  if (method !== "GET") headers["Content-Type"] = "application/json";
  if (share !== null) headers["Authorization"] = "Bearer " + share;
  const answer = await fetch(root + "/api/v1" + path, {
    method,
    headers,
    body: body === undefined ? undefined : JSON.stringify(body),
    credentials: share === null ? "same-origin" : "omit",
    cache: "no-store",
    redirect: "error",
  });
  const value = answer.status === 204 ? null : await answer.json();
  if (!answer.ok) throw Object.assign(new Error(value.detail), { status: answer.status });
  return value;
}

function row(text, small) {
  const item = document.createElement("li");
  item.textContent = text;
  const note = document.createElement("small");
  note.textContent = small;
  item.append(note);
  list.append(item);
}

function plain(entry) {
  const content = entry.message ? entry.message.content : undefined;
  return typeof content === "string" ? content : JSON.stringify(entry.message ?? entry.kind);
}

async function showSessions() {
  const me = await ask("GET", "/me");
  const page = await ask("GET", "/sessions?limit=20");
  list.replaceChildren();
  for (const one of page.data) {
    const count = one.messages === 1 ? "1 message" : one.messages + " messages";
    row(one.title ?? one.id, one.id + " · " + count + " · " + new Date(one.updated_at).toLocaleString());
  }
  if (page.data.length === 0) row("there is no session yet", "clew import --scan brings some");
  who.textContent = "signed in as " + me.name;
  leave.hidden = false;
  enter.hidden = true;
}

async function showShare() {
  const me = await ask("GET", "/me");
  const path = "/sessions/" + encodeURIComponent(me.session);
  const info = await ask("GET", path);
  const page = await ask("GET", path + "/entries?last=100");
  list.replaceChildren();
  for (const entry of page.data) row(plain(entry), new Date(entry.at).toLocaleString());
  who.textContent = "shared: " + (info.title ?? info.id);
}

function failed(error) {
  who.textContent = error.status === 401 ? "not signed in" : error.message;
  enter.hidden = share !== null || error.status !== 401;
  leave.hidden = true;
  list.replaceChildren();
}

async function start() {
  try {
    if (once !== null) await ask("POST", "/login", { once });
    await (share === null ? showSessions() : showShare());
  } catch (error) {
    failed(error);
    if (once !== null) who.textContent = error.message;
  }
}

enter.addEventListener("submit", async (event) => {
  event.preventDefault();
  const field = document.getElementById("token");
  try {
    await ask("POST", "/login", { token: field.value.trim() });
    await showSessions();
  } catch (error) {
    failed(error);
    who.textContent = error.message;
  } finally {
    field.value = "";
  }
});

leave.addEventListener("click", async () => {
  await ask("POST", "/logout").catch(() => undefined);
  failed({ status: 401 });
});

start();
