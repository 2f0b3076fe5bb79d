// KafkaJS as a guest of the broker: one command a run, one JSON object a line.
//
//   node client.js BOOTSTRAP produce TOPIC PREFIX COUNT CODEC
//   node client.js BOOTSTRAP consume TOPIC COUNT
//   node client.js BOOTSTRAP member GROUP TOPIC ASSIGNOR SESSION_MS     (until standard input ends)
//   node client.js BOOTSTRAP commit GROUP TOPIC PARTITION OFFSET
//   node client.js BOOTSTRAP seek GROUP TOPIC PARTITION OFFSET COUNT
//   node client.js BOOTSTRAP admin TOPIC GROUP
//
// interop/go-sarama answers to the same commands with the same lines. KafkaJS has one assignor, which is "roundrobin".
'use strict'

const { CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = require('kafkajs')

const say = what => process.stdout.write(JSON.stringify(what) + '\n')

const kafkaAt = bootstrap =>
  new Kafka({ clientId: 'kafkajs', brokers: bootstrap.split(','), logLevel: logLevel.ERROR, logCreator: toStderr })

const toStderr = () => ({ label, log }) => process.stderr.write(`${label}: ${log.message} ${log.error ?? ''}\n`)

// --- records ---------------------------------------------------------------------------------------------------------

const CODECS = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP }

// COUNT records round the partitions, in order within each, every one waited for.
async function produce(kafka, topic, prefix, count, codec) {
  if (!(codec in CODECS)) throw new Error(`no such codec: ${codec}`)
  const partitions = await withAdmin(kafka, async admin => (await metadata(admin, topic)).length)
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1, allowAutoTopicCreation: false })
  await producer.connect()
  const all = Array.from({ length: Number(count) }, (_, i) => ({
    partition: i % partitions,
    key: `key-${i}`,
    value: `${prefix}-${i}`,
    headers: { n: String(i) },
  }))
  for (let at = 0; at < all.length; at += 50) {
    await producer.send({ topic, messages: all.slice(at, at + 50), acks: -1, compression: CODECS[codec] })
  }
  await producer.disconnect()
  say({ acked: all.length })
}

const tell = (partition, message) =>
  say({
    record: [
      partition,
      Number(message.offset),
      message.key?.toString() ?? '',
      message.value?.toString() ?? '',
      message.headers?.n?.toString() ?? '',
    ],
  })

// COUNT records from the beginning. KafkaJS has no consumer without a group, so this one commits nothing.
async function consume(kafka, topic, count) {
  const consumer = consumerOf(kafka, `consume-${topic}-${process.pid}`, 10000)
  await reading(consumer, topic, { autoCommit: false }, Number(count), () => true)
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

// Run a consumer until it has told so many of the wanted records.
async function reading(consumer, topic, options, count, wanted, begin = () => {}) {
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
    let left = count
    const eachMessage = async ({ partition, message }) => {
      if (left === 0 || !wanted(partition, Number(message.offset))) return
      tell(partition, message)
      left -= 1
      if (left === 0) setImmediate(resolve)
    }
    consumer.run({ ...options, eachMessage }).then(begin, reject)
  })
}

// A member until standard input ends; then it leaves. Every record is committed.
async function member(kafka, groupId, topic, assignor, sessionMs) {
  if (assignor !== 'roundrobin') throw new Error(`no such assignor: ${assignor}`)
  const consumer = consumerOf(kafka, groupId, Number(sessionMs))
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) =>
    say({ assigned: [...(payload.memberAssignment[topic] ?? [])].sort((a, b) => a - b) })
  )
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({ autoCommitThreshold: 1, eachMessage: async ({ partition, message }) => tell(partition, message) })
  await new Promise(resolve => process.stdin.on('end', resolve).resume())
  await consumer.disconnect()
  say({ left: true })
}

async function commit(kafka, groupId, topic, partition, offset) {
  await withAdmin(kafka, admin =>
    admin.setOffsets({ groupId, topic, partitions: [{ partition: Number(partition), offset }] })
  )
  say({ committed: Number(offset) })
}

// COUNT records from OFFSET on, as a member whose group has committed something else.
async function seek(kafka, groupId, topic, partition, offset, count) {
  const consumer = consumerOf(kafka, groupId, 10000)
  const at = Number(partition)
  const last = Number(offset) + Number(count) - 1
  const wanted = (one, read) => one === at && read >= Number(offset) && read <= last // others come before the seek
  await reading(consumer, topic, { autoCommit: false }, Number(count), wanted, () =>
    consumer.seek({ topic, partition: at, offset })
  )
  await consumer.commitOffsets([{ topic, partition: at, offset: String(last + 1), metadata: 'sought' }])
  await consumer.disconnect()
  say({ left: true })
}

// --- admin -----------------------------------------------------------------------------------------------------------

async function withAdmin(kafka, what) {
  const admin = kafka.admin()
  await admin.connect()
  try {
    return await what(admin)
  } finally {
    await admin.disconnect()
  }
}

const metadata = async (admin, topic) => (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions

async function setting(admin, name) {
  const resource = { type: ConfigResourceTypes.TOPIC, name, configNames: ['retention.ms'] }
  const answer = await admin.describeConfigs({ includeSynonyms: false, resources: [resource] })
  return answer.resources[0].configEntries.find(entry => entry.configName === 'retention.ms')?.configValue ?? ''
}

// Make a topic, change it, look at it and at a group that commits to it, and remove both.
async function administer(kafka, topic, groupId) {
  await withAdmin(kafka, async admin => {
    const wanted = { topic, numPartitions: 2, replicationFactor: 1 }
    const configEntries = [{ name: 'retention.ms', value: '60000' }]
    await admin.createTopics({ topics: [{ ...wanted, configEntries }] })
    const again = await admin.createTopics({ topics: [wanted] })
    say({ step: 'create', partitions: (await metadata(admin, topic)).length, exists: again === false })

    await admin.createPartitions({ topicPartitions: [{ topic, count: 3 }] })
    say({ step: 'partitions', partitions: (await metadata(admin, topic)).length })

    const before = await setting(admin, topic)
    const longer = { type: ConfigResourceTypes.TOPIC, name: topic, configEntries: [{ name: 'retention.ms', value: '120000' }] }
    await admin.alterConfigs({ validateOnly: false, resources: [longer] })
    say({ step: 'configs', before, after: await setting(admin, topic) })

    say({ step: 'cluster', brokers: (await admin.describeCluster()).brokers.length })

    await produce(kafka, topic, 'admin', 30, 'none')
    await commit(kafka, groupId, topic, 0, '7')
    const listed = async () => (await admin.listGroups()).groups.some(group => group.groupId === groupId)
    const state = (await admin.describeGroups([groupId])).groups[0].state
    const [{ partitions: offsets }] = await admin.fetchOffsets({ groupId, topics: [topic] })
    const offset = Number(offsets.find(one => one.partition === 0).offset)
    say({ step: 'groups', listed: await listed(), state, offset })

    await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '4' }] })
    const bounds = (await admin.fetchTopicOffsets(topic)).find(one => one.partition === 0)
    say({ step: 'records', low: Number(bounds.low), high: Number(bounds.high) })

    await admin.deleteGroups([groupId])
    await admin.deleteTopics({ topics: [topic] })
    say({ step: 'delete', group: await listed() })
  })
}

// ---------------------------------------------------------------------------------------------------------------------

const COMMANDS = { produce, consume, member, commit, seek, admin: administer }

async function main([bootstrap, command, ...rest]) {
  if (!Object.hasOwn(COMMANDS, command ?? '')) throw new Error(`give BOOTSTRAP and a command; got ${command}`)
  await COMMANDS[command](kafkaAt(bootstrap), ...rest)
}

main(process.argv.slice(2)).then(
  () => process.exit(0),
  error => {
    process.stderr.write(`kafkajs: ${error.stack ?? error}\n`)
    process.exit(1)
  }
)
