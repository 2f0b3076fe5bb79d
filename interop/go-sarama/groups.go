package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/IBM/sarama"
)

var assignors = map[string]sarama.BalanceStrategy{
	"range":      sarama.NewBalanceStrategyRange(),
	"roundrobin": sarama.NewBalanceStrategyRoundRobin(),
	"sticky":     sarama.NewBalanceStrategySticky(),
}

// handler prints its assignment and its records, and marks every record for the next commit.
type handler struct {
	topic string
	from  map[int32]int64 // the offsets to start at; used once
}

func (h *handler) Setup(session sarama.ConsumerGroupSession) error {
	partitions := slices.Clone(session.Claims()[h.topic])
	slices.Sort(partitions)
	for partition, offset := range h.from {
		session.MarkOffset(h.topic, partition, offset, "")  // only moves forward
		session.ResetOffset(h.topic, partition, offset, "") // only moves back
	}
	h.from = nil
	printLine(line{"assigned": append([]int32{}, partitions...), "generation": session.GenerationID()})
	return nil
}

func (h *handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (h *handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			printRecord(message)
			session.MarkMessage(message, "")
		case <-session.Context().Done():
			return nil
		}
	}
}

func join(brokers []string, config *sarama.Config, group string) sarama.ConsumerGroup {
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Interval = 200 * time.Millisecond
	config.Consumer.Return.Errors = true
	joined, err := sarama.NewConsumerGroup(brokers, group, config)
	must(err)
	go func() {
		for err := range joined.Errors() {
			fmt.Fprintln(os.Stderr, "sarama:", err)
		}
	}()
	return joined
}

// member is a member of a group until standard input ends; then it leaves.
func member(brokers []string, config *sarama.Config, arguments []string) {
	group, topic, assignor, session := arguments[0], arguments[1], arguments[2], number(arguments[3])
	strategy, known := assignors[assignor]
	if !known {
		must(fmt.Errorf("unknown assignor: %s", assignor))
	}
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategy}
	config.Consumer.Group.Session.Timeout = time.Duration(session) * time.Millisecond
	config.Consumer.Group.Heartbeat.Interval = 300 * time.Millisecond
	joined := join(brokers, config, group)
	context, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	for context.Err() == nil {
		if err := joined.Consume(context, []string{topic}, &handler{topic: topic}); err != nil {
			fmt.Fprintln(os.Stderr, "sarama:", err) // the broker may be restarting
			time.Sleep(100 * time.Millisecond)
		}
	}
	must(joined.Close())
	printLine(line{"left": true})
}

// commit stores an offset without being a member of the group.
func commit(brokers []string, config *sarama.Config, arguments []string) {
	group, topic, partition, offset := arguments[0], arguments[1], partitionNumber(arguments[2]), number(arguments[3])
	client, err := sarama.NewClient(brokers, config)
	must(err)
	defer client.Close()
	manager, err := sarama.NewOffsetManagerFromClient(group, client)
	must(err)
	managed, err := manager.ManagePartition(topic, partition)
	must(err)
	go func() {
		for err := range managed.Errors() {
			must(err)
		}
	}()
	managed.MarkOffset(offset, "from outside")
	manager.Commit()
	must(managed.Close())
	must(manager.Close())
	printLine(line{"committed": offset})
}

// seek reads COUNT records from OFFSET on, as a member of a group that has committed another offset.
func seek(brokers []string, config *sarama.Config, arguments []string) {
	group, topic, partition, offset := arguments[0], arguments[1], partitionNumber(arguments[2]), number(arguments[3])
	config.Consumer.Offsets.AutoCommit.Enable = false
	joined := join(brokers, config, group)
	context, stop := context.WithCancel(context.Background())
	reading := &seeker{handler{topic, map[int32]int64{partition: offset}}, partition, number(arguments[4]), stop}
	must(joined.Consume(context, []string{topic}, reading))
	must(joined.Close())
	printLine(line{"left": true})
}

// seeker reads a number of records of one partition and stops.
type seeker struct {
	handler
	partition int32
	remaining int64
	stop      context.CancelFunc
}

func (s *seeker) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	if claim.Partition() != s.partition {
		<-session.Context().Done()
		return nil
	}
	for message := range claim.Messages() {
		printRecord(message)
		session.MarkMessage(message, "sought")
		if s.remaining--; s.remaining == 0 {
			session.Commit()
			s.stop()
			return nil
		}
	}
	return nil
}
