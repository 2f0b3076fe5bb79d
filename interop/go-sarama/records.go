package main

import (
	"fmt"
	"time"

	"github.com/IBM/sarama"
)

// produce sends COUNT records to the partitions in turn and waits for all acknowledgements.
func produce(brokers []string, config *sarama.Config, arguments []string) {
	topic, prefix, count, codec := arguments[0], arguments[1], int(number(arguments[2])), arguments[3]
	must(config.Producer.Compression.UnmarshalText([]byte(codec)))
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Idempotent = true
	config.Net.MaxOpenRequests = 1 // required by sarama for idempotence
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Flush.Messages = 50
	config.Producer.Flush.Frequency = 20 * time.Millisecond
	client, err := sarama.NewClient(brokers, config)
	must(err)
	defer client.Close()
	partitions, err := client.Partitions(topic)
	must(err)
	producer, err := sarama.NewAsyncProducerFromClient(client)
	must(err)
	go func() {
		for i := range count {
			producer.Input() <- record(topic, prefix, i, int32(i%len(partitions)))
		}
	}()
	acked := 0
	for acked < count {
		select {
		case <-producer.Successes():
			acked++
		case err := <-producer.Errors():
			must(err)
		}
	}
	must(producer.Close())
	printLine(line{"acked": acked})
}

func record(topic, prefix string, i int, partition int32) *sarama.ProducerMessage {
	return &sarama.ProducerMessage{
		Topic:     topic,
		Partition: partition,
		Key:       sarama.StringEncoder(fmt.Sprintf("key-%d", i)),
		Value:     sarama.StringEncoder(fmt.Sprintf("%s-%d", prefix, i)),
		Headers:   []sarama.RecordHeader{{Key: []byte("n"), Value: fmt.Append(nil, i)}},
	}
}

func printRecord(message *sarama.ConsumerMessage) {
	header := ""
	if len(message.Headers) > 0 {
		header = string(message.Headers[0].Value)
	}
	printLine(line{"record": []any{message.Partition, message.Offset, string(message.Key), string(message.Value), header}})
}

// consume reads COUNT records from the beginning of all partitions, without a group.
func consume(brokers []string, config *sarama.Config, arguments []string) {
	topic, count := arguments[0], int(number(arguments[1]))
	consumer, err := sarama.NewConsumer(brokers, config)
	must(err)
	defer consumer.Close()
	partitions, err := consumer.Partitions(topic)
	must(err)
	messages := make(chan *sarama.ConsumerMessage)
	for _, partition := range partitions {
		reading, err := consumer.ConsumePartition(topic, partition, sarama.OffsetOldest)
		must(err)
		go func() {
			for message := range reading.Messages() {
				messages <- message
			}
		}()
	}
	for range count {
		printRecord(<-messages)
	}
}
