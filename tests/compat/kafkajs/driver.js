// Drives kafkajs for the tests: one line of JSON on standard input is the request, one on standard output the answer.
// The operation "member" instead runs a group's member, which speaks as tests/compat/member.py does.
'use strict'

const readline = require('readline')
const { Kafka, CompressionTypes, CompressionCodecs, ConfigResourceTypes, logLevel } = require('kafkajs')

CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')

let request, kafka
const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const say = (event) => process.stdout.write(JSON.stringify(event) + '\n')
const encoded = (bytes) => (bytes === null || bytes === undefined ? null : Buffer.from(bytes).toString('base64'))
const decoded = (text) => (text === null ? null : Buffer.from(text, 'base64'))

async function produce({ topic, records, codec, acks, idempotent }) {
  const retry = idempotent ? undefined : { retries: 0 }
  const producer = kafka.producer({ idempotent, maxInFlightRequests: 1, retry })
  await producer.connect()
  try {
    const messages = records.map(([key, value, headers, timestamp]) => ({
      key: decoded(key),
      value: decoded(value),
      headers: Object.fromEntries(headers.map(([name, content]) => [name, decoded(content)])),
      partition: 0,
      ...(timestamp === null ? {} : { timestamp: String(timestamp) }),
    }))
    const compression = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy }
    const [sent] = await producer.send({ topic, messages, acks, compression: compression[codec] })
    return messages.map((_, index) => (acks === 0 ? -1 : Number(sent.baseOffset) + index))
  } finally {
    await producer.disconnect()
  }
}

async function consume({ topic, count, start, reset, group }) {
  const consumer = kafka.consumer({ groupId: group, maxWaitTimeInMs: 100, maxBytesPerPartition: 8 << 20 })
  const received = []
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: reset === 'earliest' })
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
    const eachMessage = async ({ message }) => {
      const headers = Object.entries(message.headers || {}).map(([name, content]) => [name, encoded(content)])
      received.push([
        Number(message.offset),
        encoded(message.key),
        encoded(message.value),
        headers,
        Number(message.timestamp),
      ])
      if (received.length >= count) resolve()
    }
    consumer.run({ autoCommit: false, eachMessage }).catch(reject)
    if (start !== null) consumer.seek({ topic, partition: 0, offset: String(start) })
  })
  await consumer.disconnect()
  return received.slice(0, count)
}

const topicConfig = (topic) => ({ type: ConfigResourceTypes.TOPIC, name: topic })

const administration = {
  create_topic: (admin, { topic, partitions, configs }) =>
    admin.createTopics({
      topics: [
        {
          topic,
          numPartitions: partitions,
          replicationFactor: 1,
          configEntries: Object.entries(configs).map(([name, value]) => ({ name, value })),
        },
      ],
    }),
  topic_names: (admin) => admin.listTopics(),
  partition_count: async (admin, { topic }) =>
    (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length,
  add_partitions: (admin, { topic, total }) =>
    admin.createPartitions({ topicPartitions: [{ topic, count: total }] }),
  topic_config: async (admin, { topic }) => {
    const { resources } = await admin.describeConfigs({ includeSynonyms: false, resources: [topicConfig(topic)] })
    return Object.fromEntries(resources[0].configEntries.map((entry) => [entry.configName, entry.configValue]))
  },
  set_topic_config: (admin, { topic, name, value }) =>
    admin.alterConfigs({ resources: [{ ...topicConfig(topic), configEntries: [{ name, value }] }] }),
  delete_topic: (admin, { topic }) => admin.deleteTopics({ topics: [topic] }),
  delete_records: async (admin, { topic, before }) => {
    await admin.fetchTopicOffsets(topic) // it needs the topic's metadata, and does not ask for it itself
    await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: String(before) }] })
  },
  offset_range: async (admin, { topic }) => {
    const { low, high } = (await admin.fetchTopicOffsets(topic)).find(({ partition }) => partition === 0)
    return [Number(low), Number(high)]
  },
  offset_at: async (admin, { topic, timestamp }) =>
    Number((await admin.fetchTopicOffsetsByTimestamp(topic, timestamp)).find(({ partition }) => partition === 0).offset),
  group_names: async (admin) => (await admin.listGroups()).groups.map(({ groupId }) => groupId),
  group_state: async (admin, { group }) => {
    const [described] = (await admin.describeGroups([group])).groups
    return [described.state, described.members.length]
  },
  committed: async (admin, { group, topic }) => {
    const [found] = await admin.fetchOffsets({ groupId: group, topics: [topic] })
    return Number(found.partitions.find(({ partition }) => partition === 0).offset)
  },
  delete_group: (admin, { group }) => admin.deleteGroups([group]),
}

async function administer(operation) {
  const admin = kafka.admin({ retry: { retries: 2 } })
  await admin.connect()
  try {
    return await operation(admin, request)
  } finally {
    await admin.disconnect()
  }
}

async function member({ topic, group, session_timeout_ms }) {
  const consumer = kafka.consumer({
    groupId: group,
    sessionTimeout: session_timeout_ms,
    rebalanceTimeout: 10000,
    heartbeatInterval: 300,
    maxWaitTimeInMs: 100,
  })
  const next = {}
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) =>
    say({ assigned: (payload.memberAssignment[topic] || []).sort() })
  )
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ partition, message }) => {
      next[partition] = Number(message.offset) + 1
      say({ record: [partition, Number(message.offset), message.value.toString()] })
    },
  })
  for (let line = await lines.next(); !line.done; line = await lines.next()) {
    if (line.value === 'commit') {
      await consumer.commitOffsets(
        Object.entries(next).map(([partition, offset]) => ({ topic, partition: Number(partition), offset: String(offset) }))
      )
      say({ committed: next })
    } else {
      await consumer.disconnect()
      return
    }
  }
}

// Kafka's code may be several wrappers deep.
function codeOf(error) {
  for (const inner of [error, error.cause, error.originalError, ...(error.errors || []), ...(error.groups || [])]) {
    if (inner && typeof inner.code === 'number') return inner.code
    if (inner && typeof inner.errorCode === 'number') return inner.errorCode
    if (inner && inner !== error && codeOf(inner) !== null) return codeOf(inner)
  }
  return null
}

async function main() {
  request = JSON.parse((await lines.next()).value)
  kafka = new Kafka({ clientId: 'kafkajs', brokers: [request.bootstrap], logLevel: logLevel.NOTHING })
  if (request.operation === 'member') return member(request)
  try {
    const own = { produce, consume }[request.operation]
    const result = await (own ? own(request) : administer(administration[request.operation]))
    say({ result: result === undefined ? null : result })
  } catch (error) {
    say({ refused: { code: codeOf(error), message: String(error) } })
  }
}

main().then(
  () => process.stdout.write('', () => process.exit(0)), // once everything is written
  (error) => {
    console.error(error)
    process.exit(1)
  }
)
