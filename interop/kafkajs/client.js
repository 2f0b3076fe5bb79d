// A test client with KafkaJS: each run executes one command and prints JSON objects, one per line.
//
//   node client.js BOOTSTRAP produce TOPIC PREFIX COUNT CODEC
//   node client.js BOOTSTRAP consume TOPIC COUNT
//   node client.js BOOTSTRAP member GROUP TOPIC ASSIGNOR SESSION_MS     (until standard input ends)
//   node client.js BOOTSTRAP commit GROUP TOPIC PARTITION OFFSET
//   node client.js BOOTSTRAP seek GROUP TOPIC PARTITION OFFSET COUNT
//   node client.js BOOTSTRAP admin TOPIC GROUP
//
// interop/go-sarama takes the same commands and prints the same lines. KafkaJS has one assignor, "roundrobin".
'use strict'

const { readFileSync } = require('fs')

const { CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = require('kafkajs')

const printLine = content => process.stdout.write(JSON.stringify(content) + '\n')

const kafkaAt = bootstrap =>
  new Kafka({ clientId: 'kafkajs', brokers: bootstrap.split(','), logLevel: logLevel.ERROR, logCreator: toStderr, ...security() })

// TLS and SASL of the environment variable KAFKA_SECURITY: a JSON object with librdkafka's names, and `token`.
function security() {
  const settings = JSON.parse(process.env.KAFKA_SECURITY ?? '{}')
  const read = name => (settings[name] ? readFileSync(settings[name], 'utf8') : undefined)
  const ssl = settings['security.protocol']?.endsWith('SSL') && {
    ca: [read('ssl.ca.location')],
    cert: read('ssl.certificate.location'),
    key: read('ssl.key.location'),
  }
  const mechanism = settings['sasl.mechanism']?.toLowerCase()
  const sasl = mechanism && {
    mechanism,
    username: settings['sasl.username'],
    password: settings['sasl.password'],
    oauthBearerProvider: async () => ({ value: settings.token }),
  }
  return { ...(ssl && { ssl }), ...(sasl && { sasl }) }
}

const toStderr = () => ({ label, log }) => process.stderr.write(`${label}: ${log.message} ${log.error ?? ''}\n`)

// --- records ---------------------------------------------------------------------------------------------------------

const CODECS = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP }

// Send COUNT records to the partitions in turn and wait for all acknowledgements.
async function produce(kafka, topic, prefix, count, codec) {
  if (!(codec in CODECS)) throw new Error(`unknown codec: ${codec}`)
  const partitions = await withAdmin(kafka, async admin => (await metadata(admin, topic)).length)
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1, allowAutoTopicCreation: false })
  await producer.connect()
  const messages = Array.from({ length: Number(count) }, (_, i) => ({
    partition: i % partitions,
    key: `key-${i}`,
    value: `${prefix}-${i}`,
    headers: { n: String(i) },
  }))
  for (let at = 0; at < messages.length; at += 50) {
    await producer.send({ topic, messages: messages.slice(at, at + 50), acks: -1, compression: CODECS[codec] })
  }
  await producer.disconnect()
  printLine({ acked: messages.length })
}

const printRecord = (partition, message) =>
  printLine({
    record: [
      partition,
      Number(message.offset),
      message.key?.toString() ?? '',
      message.value?.toString() ?? '',
      message.headers?.n?.toString() ?? '',
    ],
  })

// Read COUNT records from the beginning. KafkaJS has no consumer without a group, so this one commits nothing.
async function consume(kafka, topic, count) {
  const consumer = consumerOf(kafka, `consume-${topic}-${process.pid}`, 10000)
  await readRecords(consumer, topic, { autoCommit: false }, Number(count), () => true)
  await consumer.disconnect()
}

// --- groups ----------------------------------------------------------------------------------------------------------

const consumerOf = (kafka, groupId, sessionTimeout) =>
  kafka.consumer({
    groupId,
    sessionTimeout,
    heartbeatInterval: 300,
    maxWaitTimeInMs: 500,
    allowAutoTopicCreation: false,
    retry: { initialRetryTime: 100, retries: 20 },
  })

// Run a consumer until it has printed `count` records that `matches` accepts.
async function readRecords(consumer, topic, options, count, matches, begin = () => {}) {
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
    let remaining = count
    const eachMessage = async ({ partition, message }) => {
      if (remaining === 0 || !matches(partition, Number(message.offset))) return
      printRecord(partition, message)
      remaining -= 1
      if (remaining === 0) setImmediate(resolve)
    }
    consumer.run({ ...options, eachMessage }).then(begin, reject)
  })
}

// Be a member until standard input ends, then leave. Every record is committed.
async function member(kafka, groupId, topic, assignor, sessionMs) {
  if (assignor !== 'roundrobin') throw new Error(`unknown assignor: ${assignor}`)
  const consumer = consumerOf(kafka, groupId, Number(sessionMs))
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) =>
    printLine({ assigned: [...(payload.memberAssignment[topic] ?? [])].sort((a, b) => a - b) })
  )
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({ autoCommitThreshold: 1, eachMessage: async ({ partition, message }) => printRecord(partition, message) })
  await new Promise(resolve => process.stdin.on('end', resolve).resume())
  await consumer.disconnect()
  printLine({ left: true })
}

async function commit(kafka, groupId, topic, partition, offset) {
  await withAdmin(kafka, admin =>
    admin.setOffsets({ groupId, topic, partitions: [{ partition: Number(partition), offset }] })
  )
  printLine({ committed: Number(offset) })
}

// Read COUNT records from OFFSET on, as a member of a group that has committed another offset.
async function seek(kafka, groupId, topic, partition, offset, count) {
  const consumer = consumerOf(kafka, groupId, 10000)
  const at = Number(partition)
  const last = Number(offset) + Number(count) - 1
  // Records that arrive before the seek takes effect do not match.
  const matches = (number, read) => number === at && read >= Number(offset) && read <= last
  await readRecords(consumer, topic, { autoCommit: false }, Number(count), matches, () =>
    consumer.seek({ topic, partition: at, offset })
  )
  await consumer.commitOffsets([{ topic, partition: at, offset: String(last + 1), metadata: 'sought' }])
  await consumer.disconnect()
  printLine({ left: true })
}

// --- admin -----------------------------------------------------------------------------------------------------------

async function withAdmin(kafka, run) {
  const admin = kafka.admin()
  await admin.connect()
  try {
    return await run(admin)
  } finally {
    await admin.disconnect()
  }
}

const metadata = async (admin, topic) => (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions

async function setting(admin, name) {
  const resource = { type: ConfigResourceTypes.TOPIC, name, configNames: ['retention.ms'] }
  const response = await admin.describeConfigs({ includeSynonyms: false, resources: [resource] })
  return response.resources[0].configEntries.find(entry => entry.configName === 'retention.ms')?.configValue ?? ''
}

// Create a topic, change it, describe it and a group that commits to it, and delete both.
async function administer(kafka, topic, groupId) {
  await withAdmin(kafka, async admin => {
    const description = { topic, numPartitions: 2, replicationFactor: 1 }
    const configEntries = [{ name: 'retention.ms', value: '60000' }]
    await admin.createTopics({ topics: [{ ...description, configEntries }] })
    const created = await admin.createTopics({ topics: [description] })
    printLine({ step: 'create', partitions: (await metadata(admin, topic)).length, exists: created === false })

    await admin.createPartitions({ topicPartitions: [{ topic, count: 3 }] })
    printLine({ step: 'partitions', partitions: (await metadata(admin, topic)).length })

    const before = await setting(admin, topic)
    const longer = { type: ConfigResourceTypes.TOPIC, name: topic, configEntries: [{ name: 'retention.ms', value: '120000' }] }
    await admin.alterConfigs({ validateOnly: false, resources: [longer] })
    printLine({ step: 'configs', before, after: await setting(admin, topic) })

    printLine({ step: 'cluster', brokers: (await admin.describeCluster()).brokers.length })

    await produce(kafka, topic, 'admin', 30, 'none')
    await commit(kafka, groupId, topic, 0, '7')
    const listed = async () => (await admin.listGroups()).groups.some(group => group.groupId === groupId)
    const state = (await admin.describeGroups([groupId])).groups[0].state
    const [{ partitions: offsets }] = await admin.fetchOffsets({ groupId, topics: [topic] })
    const offset = Number(offsets.find(({ partition }) => partition === 0).offset)
    printLine({ step: 'groups', listed: await listed(), state, offset })

    await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '4' }] })
    const bounds = (await admin.fetchTopicOffsets(topic)).find(({ partition }) => partition === 0)
    printLine({ step: 'records', low: Number(bounds.low), high: Number(bounds.high) })

    await admin.deleteGroups([groupId])
    await admin.deleteTopics({ topics: [topic] })
    printLine({ step: 'delete', group: await listed() })
  })
}

// ---------------------------------------------------------------------------------------------------------------------

const COMMANDS = { produce, consume, member, commit, seek, admin: administer }

async function main([bootstrap, command, ...rest]) {
  if (!Object.hasOwn(COMMANDS, command ?? '')) throw new Error(`usage: client.js BOOTSTRAP COMMAND ARGUMENT...; got ${command}`)
  await COMMANDS[command](kafkaAt(bootstrap), ...rest)
}

main(process.argv.slice(2)).then(
  () => process.exit(0),
  error => {
    process.stderr.write(`kafkajs: ${error.stack ?? error}\n`)
    process.exit(1)
  }
)
