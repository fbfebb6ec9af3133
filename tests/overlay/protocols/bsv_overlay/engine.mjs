// The Engine of @bsv/overlay with this registry's topic, in memory: node engine.mjs TASK (JSON), with `roots` (the merkle
// root of each block of the chain, by height) and either `submit`, BEEFs (hex) to submit one after the other, or `gasp`,
// an overlay to synchronise with, `limit` outputs a page, and `rounds`.
// Printed is the list of the answers, or of the outputs after each round with the questions that were sent. With `serve`,
// the Engine then answers GASP, as overlay-express routes it, at the URL that is printed instead, until stdin ends.
import { createServer } from 'node:http'
import { Engine } from '@bsv/overlay'
import { GASP, LogLevel } from '@bsv/gasp'
import { Transaction, Utils } from '@bsv/sdk'
import { OverlayGASPRemote } from './node_modules/@bsv/overlay/dist/esm/src/GASP/OverlayGASPRemote.js'
import { OverlayGASPStorage } from './node_modules/@bsv/overlay/dist/esm/src/GASP/OverlayGASPStorage.js'

const task = JSON.parse(process.argv[2])
const TOPIC = 'tm_agent_registry'

class MemoryStorage {
  outputs = []
  applied = new Set()
  last = new Map()
  async insertOutput (output) { this.outputs.push(output) }
  async findOutput (txid, outputIndex, topic, spent) {
    return this.outputs.find(each => each.txid === txid && each.outputIndex === outputIndex) ?? null
  }

  async findOutputsForTransaction (txid) { return this.outputs.filter(each => each.txid === txid) }
  async findUTXOsForTopic (topic, since = 0, limit = Infinity) {
    const listed = this.outputs.filter(each => !each.spent && each.score >= since)
    return listed.sort((a, b) => a.score - b.score).slice(0, limit)
  }

  async deleteOutput (txid, outputIndex) {
    this.outputs = this.outputs.filter(each => each.txid !== txid || each.outputIndex !== outputIndex)
  }

  async markUTXOAsSpent (txid, outputIndex) { (await this.findOutput(txid, outputIndex)).spent = true }
  async updateConsumedBy (txid, outputIndex, topic, consumedBy) {
    (await this.findOutput(txid, outputIndex)).consumedBy = consumedBy
  }

  async updateTransactionBEEF (txid, beef) { for (const each of await this.findOutputsForTransaction(txid)) each.beef = beef }
  async insertAppliedTransaction ({ txid, topic }) { this.applied.add(`${txid} ${topic}`) }
  async doesAppliedTransactionExist ({ txid, topic }) { return this.applied.has(`${txid} ${topic}`) }
  async updateLastInteraction (host, topic, since) { this.last.set(host, since) }
  async getLastInteraction (host) { return this.last.get(host) ?? 0 }
}

// Admits outputs of one satoshi with JSON and an A2B type in their scripts, and those that a registration's satoshi moves to,
// first in, first out.
class RegistryManager {
  async identifyAdmissibleOutputs (beef, previousCoins) {
    const tx = Transaction.fromBEEF(beef)
    const admitted = new Set()
    for (const [number, output] of tx.outputs.entries()) {
      if (output.satoshis === 1 && isInscription(output.lockingScript)) admitted.add(number)
    }
    const values = tx.inputs.map(each => each.sourceTransaction?.outputs[each.sourceOutputIndex].satoshis)
    for (const coin of previousCoins) {
      if (values.slice(0, coin).includes(undefined)) continue
      const position = values.slice(0, coin).reduce((sum, value) => sum + value, 0)
      let start = 0
      for (const [number, output] of tx.outputs.entries()) {
        if (position === start && output.satoshis === 1) admitted.add(number)
        start += output.satoshis
      }
    }
    return { outputsToAdmit: [...admitted].sort((a, b) => a - b), coinsToRetain: previousCoins }
  }

  async getDocumentation () { return '' }
  async getMetaData () { return { name: TOPIC, shortDescription: '' } }
}

function isInscription (script) {
  const text = Utils.toUTF8(script.toBinary())
  return text.includes('application/json') && /type.{0,3}a2b(-agent|-mcp)?/.test(text)
}

const storage = new MemoryStorage()
const tracker = { isValidRootForHeight: async (root, height) => task.roots[height] === root, currentHeight: async () => 1000 }
const quiet = { log () {}, info () {}, warn () {}, error () {}, time () {}, timeEnd () {}, debug () {} }
const config = { [TOPIC]: task.gasp === undefined ? false : [task.gasp] }
const engine = new Engine(
  { [TOPIC]: new RegistryManager() }, {}, storage, tracker, undefined, undefined, undefined, undefined, undefined, config,
  false, '', false, undefined, quiet
)

async function submitted (hex) {
  try {
    const steak = (await engine.submit({ beef: Utils.toArray(hex, 'hex'), topics: [TOPIC] }))[TOPIC]
    return { outputsToAdmit: steak.outputsToAdmit, coinsToRetain: steak.coinsToRetain }
  } catch {
    return 'refused'
  }
}

class CountingRemote extends OverlayGASPRemote {
  questions = []
  async getInitialResponse (request) {
    this.questions.push(request.since)
    return await super.getInitialResponse(request)
  }
}

async function synchronised () {
  const remote = new CountingRemote(task.gasp, TOPIC)
  if (task.limit === undefined) {
    await engine.startGASPSync()
  } else {
    const since = await storage.getLastInteraction(task.gasp)
    const gasp = new GASP(new OverlayGASPStorage(TOPIC, engine), remote, since, '', false, true, LogLevel.NONE, true)
    await gasp.sync(task.gasp, task.limit)
    await storage.updateLastInteraction(task.gasp, TOPIC, gasp.lastInteraction)
  }
  const outpoints = storage.outputs.filter(each => !each.spent).map(each => `${each.txid}_${each.outputIndex}`)
  return { outpoints: outpoints.sort(), since: await storage.getLastInteraction(task.gasp), questions: remote.questions }
}

console.log = console.info = console.warn = () => {}
const answers = []
for (const hex of task.submit ?? []) answers.push(await submitted(hex))
for (let round = 0; round < (task.rounds ?? 0); round++) answers.push(await synchronised())
if (task.serve) serve()
else process.stdout.write(JSON.stringify(answers))

function serve () {
  const server = createServer(async (request, response) => {
    try {
      let text = ''
      for await (const piece of request) text += piece
      const question = JSON.parse(text)
      const answer = request.url === '/requestSyncResponse'
        ? await engine.provideForeignSyncResponse(question, request.headers['x-bsv-topic'])
        : await engine.provideForeignGASPNode(question.graphID, question.txid, question.outputIndex)
      response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(answer))
    } catch (error) {
      response.writeHead(400, { 'Content-Type': 'application/json' })
      response.end(JSON.stringify({ status: 'error', message: error.message }))
    }
  })
  server.listen(0, '127.0.0.1', () => process.stdout.write(`http://127.0.0.1:${server.address().port}\n`))
  process.stdin.on('end', () => process.exit(0)).resume()
}
