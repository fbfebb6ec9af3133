// Sign the card on standard input with @a2a-js/sdk 1.x, and print it with its signature.
// Argument: the private key, as PEM.
import { readFileSync } from "node:fs";
import { generateAgentCardSignature } from "@a2a-js/sdk";
import { importPKCS8 } from "jose";

const card = JSON.parse(readFileSync(0, "utf8"));
const key = await importPKCS8(process.argv[2], "ES256");
const signed = await generateAgentCardSignature(key, { alg: "ES256", typ: "JOSE", kid: "k1" })(card);
console.log(JSON.stringify({ ...card, signatures: signed.signatures }));
