package main

import (
	"context"
	"encoding/json"
	"errors"
	"sort"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var balancers = map[string]kgo.GroupBalancer{
	"range":              kgo.RangeBalancer(),
	"roundrobin":         kgo.RoundRobinBalancer(),
	"sticky":             kgo.StickyBalancer(),
	"cooperative-sticky": kgo.CooperativeStickyBalancer(),
}

// A pair is an offset and its metadata.
type pair struct {
	offset   int64
	metadata string
}

func (p *pair) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&p.offset, &p.metadata})
}

func (p pair) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{p.offset, p.metadata})
}

// A member is a client in a group. A goroutine polls it until it is closed. `owned` is maintained by the callbacks,
// because the client has no call that returns the assignment.
type member struct {
	group  string
	client *kgo.Client
	inbox  chan func()
	closed bool

	mu         sync.Mutex
	owned      map[string]bool
	events     [][]any
	records    []map[string]any
	generation int32
	failure    error
}

func (d *driver) join(c command) error {
	m := &member{group: get[string](c, "group"), inbox: make(chan func(), 16), owned: map[string]bool{}, generation: -1}
	options := []kgo.Opt{
		kgo.ClientID(get[string](c, "member")),
		kgo.ConsumerGroup(m.group),
		kgo.Balancers(balancers[get[string](c, "assignor")]),
		kgo.SessionTimeout(time.Duration(get[int64](c, "session_ms")) * time.Millisecond),
		kgo.HeartbeatInterval(200 * time.Millisecond),
		kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.MetadataMaxAge(500 * time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(m.callback("assigned", true)),
		kgo.OnPartitionsRevoked(m.callback("revoked", false)),
		kgo.OnPartitionsLost(m.callback("lost", false)),
	}
	if pattern := get[string](c, "pattern"); pattern != "" {
		options = append(options, kgo.ConsumeRegex(), kgo.ConsumeTopics(pattern))
	} else {
		options = append(options, kgo.ConsumeTopics(get[[]string](c, "topics")...))
	}
	if instance := get[string](c, "instance"); instance != "" {
		options = append(options, kgo.InstanceID(instance))
	}
	client, err := kgo.NewClient(connect(d.bootstrap, options...)...)
	if err != nil {
		return err
	}
	m.client = client
	d.members[get[string](c, "member")] = m
	go m.run()
	return nil
}

func (m *member) callback(kind string, gained bool) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		changed := names(partitions)
		if len(changed) == 0 {
			return
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.events = append(m.events, []any{kind, changed})
		for _, partition := range changed {
			if gained {
				m.owned[partition] = true
			} else {
				delete(m.owned, partition)
			}
		}
	}
}

func (m *member) run() {
	for !m.closed {
		ctx, cancel := context.WithTimeout(context.Background(), pollTime)
		m.record(m.client.PollFetches(ctx))
		cancel()
		m.client.AllowRebalance()
		for more := true; more && !m.closed; {
			select {
			case work := <-m.inbox:
				work()
			default:
				more = false
			}
		}
	}
}

func (m *member) record(fetches kgo.Fetches) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fetches.EachError(func(_ string, _ int32, err error) {
		if !errors.Is(err, context.DeadlineExceeded) {
			m.failure = err
		}
	})
	fetches.EachRecord(func(record *kgo.Record) { m.records = append(m.records, toJSON(record)) })
	_, m.generation = m.client.GroupMetadata()
}

// call runs a function between two polls.
func (m *member) call(work func(*member) error) error {
	done := make(chan error, 1)
	m.inbox <- func() { done <- work(m) }
	return <-done
}

func (m *member) close() error {
	return m.call(func(m *member) error {
		m.closed = true
		m.client.CloseAllowingRebalance()
		return nil
	})
}

func (m *member) snapshot() (any, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	assignment := []string{}
	for partition := range m.owned {
		assignment = append(assignment, partition)
	}
	sort.Strings(assignment)
	return map[string]any{
		"assignment": assignment,
		"generation": m.generation,
		"events":     append([][]any{}, m.events...),
		"records":    append([]map[string]any{}, m.records...),
	}, m.failure
}

// commit commits these offsets, or without any the positions.
func (m *member) commit(ctx context.Context, offsets map[string]pair) error {
	if offsets == nil {
		return m.client.CommitUncommittedOffsets(ctx)
	}
	commits := map[string]map[int32]kgo.EpochOffset{}
	for name, at := range offsets {
		topic, partition := split(name)
		if commits[topic] == nil {
			commits[topic] = map[int32]kgo.EpochOffset{}
		}
		commits[topic][partition] = kgo.EpochOffset{Epoch: -1, Offset: at.offset}
	}
	ctx = kgo.PreCommitFnContext(ctx, func(request *kmsg.OffsetCommitRequest) error {
		for _, topic := range request.Topics {
			for i := range topic.Partitions {
				name := names(map[string][]int32{topic.Topic: {topic.Partitions[i].Partition}})[0]
				topic.Partitions[i].Metadata = kmsg.StringPtr(offsets[name].metadata)
			}
		}
		return nil
	})
	var failure error
	m.client.CommitOffsetsSync(ctx, commits,
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error) {
			failure = errors.Join(err, firstError(response))
		})
	return failure
}

func (m *member) seek(name string, offset int64) {
	topic, partition := split(name)
	m.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{topic: {partition: {Epoch: -1, Offset: offset}}})
}
