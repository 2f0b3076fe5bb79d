// One consumer process of an incident, with KafkaJS: `node member.js JSON`. It takes the same commands on standard input
// as member.py. KafkaJS's log goes to standard output unchanged.
'use strict'

const readline = require('readline')
const { Kafka, logLevel } = require('kafkajs')

const config = JSON.parse(process.argv[2])
const commands = { delay: 0, once: 0, fail: false }
const kafka = new Kafka({ clientId: config.client ?? undefined, brokers: [config.bootstrap], logLevel: logLevel.INFO })
const consumer = kafka.consumer({
  groupId: config.group,
  sessionTimeout: config.session,
  rebalanceTimeout: config.interval,
  heartbeatInterval: Math.max(300, Math.floor(config.session / 4)),
  metadataMaxAge: config.metadata,
})

const handle = async () => {
  if (commands.fail) throw new Error('cannot parse record')
  const seconds = commands.once || commands.delay
  commands.once = 0
  await new Promise(resolve => setTimeout(resolve, seconds * 1000))
}

const lines = readline.createInterface({ input: process.stdin })
lines.on('line', line => {
  const [word, value] = line.trim().split(' ')
  if (word === 'delay') commands.delay = Number(value)
  if (word === 'once') commands.once = Number(value)
  if (word === 'throw') commands.fail = true
  if (word === 'exit') process.exit(1)
})
lines.on('close', () => process.exit(1))
process.on('SIGTERM', async () => {
  await consumer.disconnect()
  process.exit(0)
})

const run = async () => {
  await consumer.connect()
  for (const topic of config.pattern ? [new RegExp(config.pattern)] : config.topics) {
    await consumer.subscribe({ topic, fromBeginning: true })
  }
  await consumer.run({ eachMessage: handle })
}

run().catch(error => {
  console.error(error)
  process.exit(1)
})
