// Command clientdriver is franz-go, driven by lines of JSON: one command in, one answer out, as
// tests/interop/drivers/line.py describes them. The broker's address is the only argument.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	pollTime    = 50 * time.Millisecond
	commandTime = 40 * time.Second
)

// A command is a line's fields, not yet decoded: what a field holds depends on the command.
type command map[string]json.RawMessage

// get decodes a field; null, and a field that is not there, is the type's zero value.
func get[T any](c command, name string) T {
	var value T
	if raw, ok := c[name]; ok {
		if err := json.Unmarshal(raw, &value); err != nil {
			panic(fmt.Sprintf("%s: %v", name, err))
		}
	}
	return value
}

type driver struct {
	bootstrap string
	client    *kgo.Client
	admin     *kadm.Client
	members   map[string]*member
}

func main() {
	client, err := kgo.NewClient(kgo.SeedBrokers(os.Args[1]))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	d := &driver{os.Args[1], client, kadm.NewClient(client), map[string]*member{}}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	answers := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		answer, err := d.answer(c)
		if err != nil {
			_ = answers.Encode(map[string]any{"error": err.Error(), "code": code(err)})
		} else {
			_ = answers.Encode(map[string]any{"answer": answer})
		}
	}
}

// code is Kafka's error code, -1 if it has none.
func code(err error) int16 {
	var kafka *kerr.Error
	if errors.As(err, &kafka) {
		return kafka.Code
	}
	return -1
}

func (d *driver) answer(c command) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandTime)
	defer cancel()
	switch do := get[string](c, "do"); do {
	case "join":
		return nil, d.join(c)
	case "snapshot":
		return d.member(c).look()
	case "commit":
		return nil, d.member(c).ask(func(m *member) error { return m.commit(ctx, get[map[string]pair](c, "offsets")) })
	case "committed":
		return d.committed(ctx, d.member(c).group, get[string](c, "partition"))
	case "seek":
		return nil, d.member(c).ask(func(m *member) error {
			m.seek(get[string](c, "partition"), get[int64](c, "offset"))
			return nil
		})
	case "close":
		m := d.member(c)
		delete(d.members, get[string](c, "member"))
		return nil, m.close()
	case "produce":
		return d.produce(ctx, c)
	case "read":
		return d.read(ctx, c)
	case "offsets":
		return d.offsets(ctx, c)
	case "offset_at":
		return d.offsetAt(ctx, c)
	default:
		return d.administer(ctx, do, c)
	}
}

func (d *driver) member(c command) *member {
	return d.members[get[string](c, "member")]
}

// split takes topic-0 apart.
func split(partition string) (string, int32) {
	dash := strings.LastIndexByte(partition, '-')
	number, err := strconv.ParseInt(partition[dash+1:], 10, 32)
	if err != nil {
		panic(err)
	}
	return partition[:dash], int32(number)
}

// names writes partitions as Kafka does, in order.
func names(partitions map[string][]int32) []string {
	found := []string{}
	for topic, numbers := range partitions {
		for _, number := range numbers {
			found = append(found, fmt.Sprintf("%s-%d", topic, number))
		}
	}
	sort.Strings(found)
	return found
}
