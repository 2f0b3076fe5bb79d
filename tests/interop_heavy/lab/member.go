// One consumer process of an incident, with Sarama: it takes one argument, JSON, and obeys the same lines on standard
// input as member.py. What Sarama logs goes to standard error as it is.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"log"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/IBM/sarama"
)

var (
	delay atomic.Int64
	once  atomic.Int64
	fail  atomic.Bool
)

type handler struct{}

func (handler) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			if fail.Load() {
				panic(errors.New("cannot parse record"))
			}
			wait := once.Swap(0)
			if wait == 0 {
				wait = delay.Load()
			}
			time.Sleep(time.Duration(wait) * time.Millisecond)
			session.MarkMessage(message, "")
		case <-session.Context().Done():
			return nil
		}
	}
}

func listen() {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		word, value, _ := strings.Cut(strings.TrimSpace(in.Text()), " ")
		seconds, _ := strconv.ParseFloat(value, 64)
		switch word {
		case "delay":
			delay.Store(int64(seconds * 1000))
		case "once":
			once.Store(int64(seconds * 1000))
		case "throw":
			fail.Store(true)
		case "exit":
			os.Exit(1)
		}
	}
	os.Exit(1)
}

func main() {
	var wanted struct {
		Bootstrap, Group, Client, Instance, Assignor string
		Topics                                       []string
		Session, Interval, Metadata                  int
	}
	if err := json.Unmarshal([]byte(os.Args[1]), &wanted); err != nil {
		log.Fatal(err)
	}
	sarama.Logger = log.New(os.Stderr, "[sarama] ", log.LstdFlags|log.Lmicroseconds)
	config := sarama.NewConfig()
	config.Version = sarama.V3_6_0_0
	config.ClientID = wanted.Client
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Group.Session.Timeout = time.Duration(wanted.Session) * time.Millisecond
	config.Consumer.Group.Heartbeat.Interval = time.Duration(wanted.Session/4) * time.Millisecond
	config.Consumer.Group.Rebalance.Timeout = time.Duration(wanted.Interval) * time.Millisecond
	config.Consumer.Group.InstanceId = wanted.Instance
	config.Metadata.RefreshFrequency = time.Duration(wanted.Metadata) * time.Millisecond
	if wanted.Assignor == "roundrobin" {
		config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyRoundRobin()}
	}
	group, err := sarama.NewConsumerGroup([]string{wanted.Bootstrap}, wanted.Group, config)
	if err != nil {
		log.Fatal(err)
	}
	go listen()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	for ctx.Err() == nil {
		if err := group.Consume(ctx, wanted.Topics, handler{}); err != nil {
			sarama.Logger.Println("consume:", err)
			time.Sleep(200 * time.Millisecond)
		}
	}
	group.Close()
}
