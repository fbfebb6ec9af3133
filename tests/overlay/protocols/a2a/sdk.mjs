// The client of @a2a-js/sdk: reads the card at a URL, searches, and prints what it got as JSON.
// Arguments: the URL of the overlay, the version to speak, and the package of the client.
const [url, version, name] = process.argv.slice(2);
const { ClientFactory } = await import(`${name}/client`);

const client = await new ClientFactory().createFromUrl(url);
const old = await new ClientFactory().createFromUrl(url, "/.well-known/agent.json");
const card = await (client.getAgentCard?.() ?? client.agentCard);
const part =
  version === "0.3"
    ? (kind, value) => ({ kind, [kind]: value })
    : ($case, value) => ({ content: { $case, value }, mediaType: "", filename: "", metadata: undefined });

function message(parts) {
  const one = { messageId: "m1", role: "user", kind: "message", parts, contextId: "c1" };
  if (version === "0.3") return { message: one };
  return {
    tenant: "",
    message: { ...one, role: 1, kind: undefined, taskId: "", extensions: [], referenceTaskIds: [], metadata: {} },
  };
}

const ask = (...parts) => client.sendMessage(message(parts));
const error = (promise) => promise.then(() => "none", (refusal) => `${refusal.name}: ${refusal.message}`);

if (version === "1.0") {
  const { verifyAgentCardSignature } = await import(name);
  const { createRemoteJWKSet } = await import("jose");
  await verifyAgentCardSignature((kid, jku) => createRemoteJWKSet(new URL(jku))({ kid, alg: "EdDSA" }))(card);
}

console.log(
  JSON.stringify({
    name: card.name,
    old: (await (old.getAgentCard?.() ?? old.agentCard)).name,
    skills: card.skills.map((skill) => skill.id),
    question: await ask(part("text", "watchtower")),
    nothing: await ask(part("text", "zzqxjkv")),
    data: await ask(part("data", { type: "tool", limit: 1, sort: "name" })),
    unknown: await error(ask(part("data", { tipe: "tool" }))),
    file: await error(ask(version === "0.3" ? part("file", { uri: "https://a.example" }) : part("url", "https://a.example"))),
    task: await error(client.getTask({ tenant: "", id: "t1" })),
  }),
);
