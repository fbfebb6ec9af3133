// Looks outputs up as applications do, with the LookupResolver of @bsv/sdk: node lookup_client.mjs URL QUESTION...
// Each question is a JSON document; printed is one JSON list: of each question the answer, shown.
import {
  HTTPSOverlayLookupFacilitator, LookupResolver, OverlayAdminTokenTemplate, ProtoWallet, PushDrop, TopicBroadcaster,
  Transaction, Utils
} from '@bsv/sdk'

const [url, ...questions] = process.argv.slice(2)
const services = ['ls_agent_registry', 'ls_a2b', 'ls_ship']
// the preset `local` is the one that allows http
const resolver = new LookupResolver({
  networkPreset: 'local', hostOverrides: Object.fromEntries(services.map(service => [service, [url]]))
})

// What the SHIP and SLAP topic managers check: signature and locking key belong to the identity key.
async function isLinked (script) {
  const { fields, lockingPublicKey } = PushDrop.decode(script)
  const signature = fields.pop()
  const protocol = Utils.toUTF8(fields[0]) === 'SHIP' ? 'service host interconnect' : 'service lookup availability'
  const key = { counterparty: Utils.toHex(fields[1]), protocolID: [2, protocol], keyID: '1' }
  const anyone = new ProtoWallet('anyone')
  const { valid } = await anyone.verifySignature({ data: fields.flat(), signature, ...key })
  return valid && (await anyone.getPublicKey(key)).publicKey === lockingPublicKey.toString()
}

async function shown ({ beef, outputIndex, context }) {
  const tx = Transaction.fromBEEF(beef)
  const output = {
    outpoint: `${tx.id('hex')}_${outputIndex}`,
    again: Transaction.fromBEEF(tx.toBEEF()).id('hex'),
    satoshis: tx.outputs[outputIndex].satoshis,
    height: tx.merklePath?.blockHeight ?? null,
    root: tx.merklePath?.computeRoot(tx.id('hex')) ?? null,
    context: context === undefined ? null : JSON.parse(Utils.toUTF8(context))
  }
  const script = tx.outputs[outputIndex].lockingScript
  if (tx.merklePath === undefined) {
    output.token = { ...OverlayAdminTokenTemplate.decode(script), linked: await isLinked(script) }
  }
  return output
}

async function answered (question) {
  if (question.broadcaster) { // where a broadcaster would send transactions of these topics
    const hosts = await new TopicBroadcaster(question.broadcaster, { resolver }).findInterestedHosts()
    return Object.fromEntries(Object.entries(hosts).map(([host, topics]) => [host, [...topics]]))
  }
  const answer = question.service === 'ls_slap' // the resolver only asks trackers, of fixed addresses
    ? await new HTTPSOverlayLookupFacilitator(fetch, true).lookup(url, question, 5000)
    : await resolver.query(question, 5000)
  return await Promise.all(answer.outputs.map(shown))
}

const answers = []
for (const question of questions) answers.push(await answered(JSON.parse(question)))
console.log(JSON.stringify(answers))
