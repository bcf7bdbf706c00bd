// Asking the service: relative addresses, so that the page works behind a proxy under any path.

const ROLES = ["viewer", "reader", "writer", "admin"]; // each may do what those before it may
let token = sessionStorage.getItem("linoto-token"), role = "admin"; // until the service says another one

/** Why the service said no: `status` for programs, the message for people. */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Use this token from now on, until the tab is closed; what no header can carry is no token. */
export function useToken(value) {
  token = /^[!-~]+$/.test(value) ? value : "unreadable";
  sessionStorage.setItem("linoto-token", token);
}

/** Let a control be used only where it makes sense, and by those whose role is enough. */
export function allow(control, needed, sensible = true) {
  const may = ROLES.indexOf(role) >= ROLES.indexOf(needed);
  control.disabled = !sensible || !may;
  control.title = may ? "" : `This needs the role ${needed}; the token is of a ${role}.`;
}

/** The address of a loop, or of something below it. */
export function at(name, ...rest) {
  return ["v1/loops", name, ...rest].map((step, i) => (i ? encodeURIComponent(step) : step)).join("/");
}

async function send(method, path, body, patience = AbortSignal.timeout(20_000)) {
  const headers = { accept: "application/json" };
  if (token) headers.authorization = `Bearer ${token}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  const options = { method, headers, cache: "no-store", signal: patience };
  if (body !== undefined) options.body = JSON.stringify(body);
  const response = await fetch(path, options);
  if (response.ok) {
    role = response.headers.get("x-role") ?? role;
    return response;
  }
  const said = await response.json().catch(() => null);
  throw new Refused(response.status, said?.error?.message ?? `the service answered ${response.status}`);
}

/** Ask, and read the answer as JSON. */
export async function ask(method, path, body) {
  return (await send(method, path, body)).json();
}

/** Ask for a file and hand it to the browser as a download. */
export async function download(path, name) {
  const address = URL.createObjectURL(await (await send("GET", path, undefined, null)).blob());
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
