// One consumer process of an incident, with KafkaJS: `node member.js JSON`. It obeys the same lines on standard input as
// member.py; what KafkaJS logs goes to standard output as it is.
'use strict'

const readline = require('readline')
const { Kafka, logLevel } = require('kafkajs')

const config = JSON.parse(process.argv[2])
const orders = { delay: 0, once: 0, fail: false }
const kafka = new Kafka({ clientId: config.client ?? undefined, brokers: [config.bootstrap], logLevel: logLevel.INFO })
const consumer = kafka.consumer({
  groupId: config.group,
  sessionTimeout: config.session,
  rebalanceTimeout: config.interval,
  heartbeatInterval: Math.max(300, Math.floor(config.session / 4)),
  metadataMaxAge: config.metadata,
})

const handle = async () => {
  if (orders.fail) throw new Error('cannot parse record')
  const seconds = orders.once || orders.delay
  orders.once = 0
  await new Promise(resolve => setTimeout(resolve, seconds * 1000))
}

const lines = readline.createInterface({ input: process.stdin })
lines.on('line', line => {
  const [word, value] = line.trim().split(' ')
  if (word === 'delay') orders.delay = Number(value)
  if (word === 'once') orders.once = Number(value)
  if (word === 'throw') orders.fail = true
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
