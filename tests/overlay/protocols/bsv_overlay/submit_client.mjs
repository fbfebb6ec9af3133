// Submits as applications do, with @bsv/sdk: node submit_client.mjs URL BEEF... (hex, of version 1).
// Printed is one JSON list: for each BEEF what came of each form of submission.
import {
  Beef, HTTPSOverlayBroadcastFacilitator, LookupResolver, TopicBroadcaster, Transaction
} from '@bsv/sdk'

const [url, ...packages] = process.argv.slice(2)
const topics = ['tm_agent_registry']
const facilitator = new HTTPSOverlayBroadcastFacilitator(fetch, true)
// the hosts of the topic are those that the server names itself
const resolver = new LookupResolver({ networkPreset: 'local', hostOverrides: { ls_ship: [url] } })

async function submitted (hex) {
  const tx = Transaction.fromHexBEEF(hex)
  const forms = {
    v1: { beef: tx.toBEEF() },
    v2: { beef: merged(tx).toBinary() },
    atomic: { beef: tx.toAtomicBEEF() },
    offChain: { beef: tx.toBEEF(), offChainValues: [1, 2, 3] }
  }
  const answers = {}
  for (const [form, tagged] of Object.entries(forms)) {
    try {
      answers[form] = await facilitator.send(url, { ...tagged, topics })
    } catch (error) {
      answers[form] = error.message
    }
  }
  answers.broadcaster = (await new TopicBroadcaster(topics, { facilitator, resolver }).broadcast(tx)).status
  return answers
}

function merged (tx) {
  const beef = new Beef()
  beef.mergeTransaction(tx)
  return beef
}

const answers = []
for (const hex of packages) answers.push(await submitted(hex))
console.log(JSON.stringify(answers))
