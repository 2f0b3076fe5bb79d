// One consumer process of an incident, with Sarama. It takes one JSON argument and the same commands on standard input
// as member.py. Sarama's log goes to standard error unchanged.
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
	var settings struct {
		Bootstrap, Group, Client, Instance, Assignor string
		Topics                                       []string
		Session, Interval, Metadata                  int
	}
	if err := json.Unmarshal([]byte(os.Args[1]), &settings); err != nil {
		log.Fatal(err)
	}
	sarama.Logger = log.New(os.Stderr, "[sarama] ", log.LstdFlags|log.Lmicroseconds)
	config := sarama.NewConfig()
	config.Version = sarama.V3_6_0_0
	config.ClientID = settings.Client
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Group.Session.Timeout = time.Duration(settings.Session) * time.Millisecond
	config.Consumer.Group.Heartbeat.Interval = time.Duration(settings.Session/4) * time.Millisecond
	config.Consumer.Group.Rebalance.Timeout = time.Duration(settings.Interval) * time.Millisecond
	config.Consumer.Group.InstanceId = settings.Instance
	config.Metadata.RefreshFrequency = time.Duration(settings.Metadata) * time.Millisecond
	if settings.Assignor == "roundrobin" {
		config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyRoundRobin()}
	}
	group, err := sarama.NewConsumerGroup([]string{settings.Bootstrap}, settings.Group, config)
	if err != nil {
		log.Fatal(err)
	}
	go listen()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	for ctx.Err() == nil {
		if err := group.Consume(ctx, settings.Topics, handler{}); err != nil {
			sarama.Logger.Println("consume:", err)
			time.Sleep(200 * time.Millisecond)
		}
	}
	group.Close()
}
