// Command clientdriver controls franz-go by JSON lines: one command in, one result out, as described in
// tests/interop/drivers/line.py. The broker's address is the only argument.
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

// A command holds the undecoded fields of a line; their types depend on the command.
type command map[string]json.RawMessage

// get decodes a field; a null or missing field is the type's zero value.
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
	client, err := kgo.NewClient(connect(os.Args[1])...)
	must(err)
	d := &driver{os.Args[1], client, kadm.NewClient(client), map[string]*member{}}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	results := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var c command
		must(json.Unmarshal(lines.Bytes(), &c))
		result, err := d.execute(c)
		if err != nil {
			_ = results.Encode(map[string]any{"error": err.Error(), "code": code(err)})
		} else {
			_ = results.Encode(map[string]any{"result": result})
		}
	}
}

// code returns Kafka's error code, or -1.
func code(err error) int16 {
	var kafka *kerr.Error
	if errors.As(err, &kafka) {
		return kafka.Code
	}
	return -1
}

func (d *driver) execute(c command) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandTime)
	defer cancel()
	switch do := get[string](c, "do"); do {
	case "join":
		return nil, d.join(c)
	case "snapshot":
		return d.member(c).snapshot()
	case "commit":
		return nil, d.member(c).call(func(m *member) error { return m.commit(ctx, get[map[string]pair](c, "offsets")) })
	case "committed":
		return d.committed(ctx, d.member(c).group, get[string](c, "partition"))
	case "seek":
		return nil, d.member(c).call(func(m *member) error {
			m.seek(get[string](c, "partition"), get[int64](c, "offset"))
			return nil
		})
	case "close":
		m := d.member(c)
		delete(d.members, get[string](c, "member"))
		return nil, m.close()
	case "transact":
		return nil, d.transact(ctx, c)
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

// split separates topic-0 into topic and partition.
func split(partition string) (string, int32) {
	dash := strings.LastIndexByte(partition, '-')
	number, err := strconv.ParseInt(partition[dash+1:], 10, 32)
	if err != nil {
		panic(err)
	}
	return partition[:dash], int32(number)
}

// names formats partitions as topic-0, sorted.
func names(partitions map[string][]int32) []string {
	formatted := []string{}
	for topic, numbers := range partitions {
		for _, number := range numbers {
			formatted = append(formatted, fmt.Sprintf("%s-%d", topic, number))
		}
	}
	sort.Strings(formatted)
	return formatted
}
