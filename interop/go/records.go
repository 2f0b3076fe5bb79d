package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

// A record is a record of a produce command.
type record struct {
	Partition *int32
	Key       *string
	Value     *string
	Headers   [][2]string
	Timestamp *int64
}

func data(text *string) []byte {
	if text == nil {
		return nil
	}
	return []byte(*text)
}

func text(data []byte) any {
	if data == nil {
		return nil
	}
	return string(data)
}

func toJSON(r *kgo.Record) map[string]any {
	headers := [][]any{}
	for _, header := range r.Headers {
		headers = append(headers, []any{header.Key, text(header.Value)})
	}
	return map[string]any{
		"topic":     r.Topic,
		"partition": r.Partition,
		"offset":    r.Offset,
		"key":       text(r.Key),
		"value":     text(r.Value),
		"headers":   headers,
		"timestamp": r.Timestamp.UnixMilli(),
	}
}

type transaction struct {
	Values []string `json:"values"`
	End    string   `json:"end"`
}

// transact runs transactions one after the other; the last one may stay open, as in a process that crashes.
func (d *driver) transact(ctx context.Context, c command) error {
	client, err := kgo.NewClient(connect(
		d.bootstrap,
		kgo.TransactionalID(get[string](c, "transactional_id")),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)...)
	if err != nil {
		return err
	}
	for _, t := range get[[]transaction](c, "transactions") {
		if err := client.BeginTransaction(); err != nil {
			return err
		}
		for _, value := range t.Values {
			record := &kgo.Record{Topic: get[string](c, "topic"), Value: []byte(value)}
			if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
				return err
			}
		}
		if t.End == "open" {
			return nil // the client stays open
		}
		if err := client.EndTransaction(ctx, kgo.TransactionEndTry(t.End == "commit")); err != nil {
			return err
		}
	}
	client.Close()
	return nil
}

func (d *driver) produce(ctx context.Context, c command) (any, error) {
	partitioner := kgo.StickyKeyPartitioner(nil)
	records := []*kgo.Record{}
	for _, requested := range get[[]record](c, "records") {
		r := &kgo.Record{Topic: get[string](c, "topic"), Key: data(requested.Key), Value: data(requested.Value)}
		if requested.Partition != nil {
			partitioner = kgo.ManualPartitioner()
			r.Partition = *requested.Partition
		}
		if requested.Timestamp != nil {
			r.Timestamp = time.UnixMilli(*requested.Timestamp)
		}
		for _, header := range requested.Headers {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: header[0], Value: []byte(header[1])})
		}
		records = append(records, r)
	}
	client, err := kgo.NewClient(connect(
		d.bootstrap,
		kgo.RecordPartitioner(partitioner),
		kgo.ProducerBatchCompression(codecs[get[string](c, "codec")]),
		kgo.AllowAutoTopicCreation(),
	)...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	positions := [][2]int64{}
	for _, result := range client.ProduceSync(ctx, records...) {
		if result.Err != nil {
			return nil, result.Err
		}
	}
	for _, r := range records {
		positions = append(positions, [2]int64{int64(r.Partition), r.Offset})
	}
	return positions, nil
}

func (d *driver) read(ctx context.Context, c command) (any, error) {
	start := map[int32]kgo.Offset{}
	for partition, offset := range get[map[string]int64](c, "start") {
		number, err := strconv.ParseInt(partition, 10, 32)
		if err != nil {
			return nil, err
		}
		start[int32(number)] = kgo.NewOffset().At(offset)
	}
	client, err := kgo.NewClient(connect(
		d.bootstrap,
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{get[string](c, "topic"): start}),
	)...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	records := []map[string]any{}
	for len(records) < get[int](c, "count") {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(r *kgo.Record) { records = append(records, toJSON(r)) })
	}
	return records, nil
}

func (d *driver) offsets(ctx context.Context, c command) (any, error) {
	topic := get[string](c, "topic")
	first, err := d.admin.ListStartOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	end, err := d.admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	offsets := map[int32][2]int64{}
	for _, partition := range get[[]int32](c, "partitions") {
		from, _ := first.Lookup(topic, partition)
		to, _ := end.Lookup(topic, partition)
		if err := errors.Join(from.Err, to.Err); err != nil {
			return nil, err
		}
		offsets[partition] = [2]int64{from.Offset, to.Offset}
	}
	return offsets, nil
}

func (d *driver) offsetAt(ctx context.Context, c command) (any, error) {
	topic := get[string](c, "topic")
	listed, err := d.admin.ListOffsetsAfterMilli(ctx, get[int64](c, "timestamp"), topic)
	if err != nil {
		return nil, err
	}
	response, _ := listed.Lookup(topic, get[int32](c, "partition"))
	return response.Offset, response.Err
}

// firstError returns the first error in a commit response.
func firstError(response *kmsg.OffsetCommitResponse) error {
	if response == nil {
		return nil
	}
	for _, topic := range response.Topics {
		for _, partition := range topic.Partitions {
			if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
				return err
			}
		}
	}
	return nil
}
