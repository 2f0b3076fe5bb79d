package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
)

// administer answers the commands that need the admin client.
func (d *driver) administer(ctx context.Context, do string, c command) (any, error) {
	topic, group := get[string](c, "topic"), get[string](c, "group")
	switch do {
	case "create_topic":
		configs := map[string]*string{}
		for name, value := range get[map[string]string](c, "configs") {
			configs[name] = &value
		}
		_, err := d.admin.CreateTopic(ctx, get[int32](c, "partitions"), 1, configs, topic)
		return nil, err
	case "delete_topic":
		_, err := d.admin.DeleteTopic(ctx, topic)
		return nil, err
	case "topics":
		found, err := d.admin.ListTopics(ctx)
		return found.Names(), err
	case "partitions":
		found, err := d.admin.ListTopics(ctx, topic)
		if err != nil {
			return nil, err
		}
		return len(found[topic].Partitions), found[topic].Err
	case "add_partitions":
		found, err := d.admin.UpdatePartitions(ctx, get[int](c, "total"), topic)
		if err != nil {
			return nil, err
		}
		return nil, found[topic].Err
	case "config":
		return d.config(ctx, topic, get[string](c, "name"))
	case "set_config":
		value := get[string](c, "value")
		wanted := kadm.AlterConfig{Op: kadm.SetConfig, Name: get[string](c, "name"), Value: &value}
		told, err := d.admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{wanted}, topic)
		if err != nil {
			return nil, err
		}
		return nil, told[0].Err
	case "delete_records":
		return d.deleteRecords(ctx, topic, get[int32](c, "partition"), get[int64](c, "before"))
	case "groups":
		found, err := d.admin.ListGroups(ctx)
		return found.Groups(), err
	case "group":
		return d.group(ctx, group)
	case "group_offsets":
		return d.groupOffsets(ctx, group)
	case "set_group_offsets":
		wanted := kadm.Offsets{}
		for one, offset := range get[map[string]int64](c, "offsets") {
			topic, partition := split(one)
			wanted.AddOffset(topic, partition, offset, -1)
		}
		return nil, d.admin.CommitAllOffsets(ctx, group, wanted)
	case "delete_group_offsets":
		wanted := kadm.TopicsSet{}
		for _, one := range get[[]string](c, "partitions") {
			topic, partition := split(one)
			wanted.Add(topic, partition)
		}
		told, err := d.admin.DeleteOffsets(ctx, group, wanted)
		if err != nil {
			return nil, err
		}
		return nil, told.Error()
	case "delete_group":
		_, err := d.admin.DeleteGroup(ctx, group)
		return nil, err
	case "cluster":
		return d.cluster(ctx)
	default:
		return nil, fmt.Errorf("no such command: %s", do)
	}
}

func (d *driver) config(ctx context.Context, topic, name string) (any, error) {
	found, err := d.admin.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return nil, err
	}
	for _, config := range found[0].Configs {
		if config.Key == name {
			return config.MaybeValue(), nil
		}
	}
	return nil, found[0].Err
}

func (d *driver) deleteRecords(ctx context.Context, topic string, partition int32, before int64) (any, error) {
	wanted := kadm.Offsets{}
	wanted.AddOffset(topic, partition, before, -1)
	told, err := d.admin.DeleteRecords(ctx, wanted)
	if err != nil {
		return nil, err
	}
	found, _ := told.Lookup(topic, partition)
	return found.LowWatermark, found.Err
}

func (d *driver) group(ctx context.Context, group string) (any, error) {
	described, err := d.admin.DescribeGroups(ctx, group)
	if err != nil {
		return nil, err
	}
	found := described[group]
	members := map[string][]string{}
	for _, one := range found.Members {
		assigned := map[string][]int32{}
		if plan, ok := one.Assigned.AsConsumer(); ok {
			for _, topic := range plan.Topics {
				assigned[topic.Topic] = topic.Partitions
			}
		}
		members[one.ClientID] = names(assigned)
	}
	return map[string]any{"state": found.State, "protocol": found.Protocol, "members": members}, found.Err
}

func (d *driver) groupOffsets(ctx context.Context, group string) (any, error) {
	fetched, err := d.admin.FetchOffsets(ctx, group)
	if err != nil {
		return nil, err
	}
	found := map[string]int64{}
	fetched.Each(func(one kadm.OffsetResponse) {
		found[fmt.Sprintf("%s-%d", one.Topic, one.Partition)] = one.At
	})
	return found, fetched.Error()
}

// committed is a partition's committed offset and metadata, null if there is none.
func (d *driver) committed(ctx context.Context, group, one string) (any, error) {
	fetched, err := d.admin.FetchOffsets(ctx, group)
	if err != nil {
		return nil, err
	}
	topic, partition := split(one)
	found, ok := fetched.Lookup(topic, partition)
	if !ok {
		return nil, nil
	}
	return pair{found.At, found.Metadata}, found.Err
}

func (d *driver) cluster(ctx context.Context) (any, error) {
	found, err := d.admin.BrokerMetadata(ctx)
	if err != nil {
		return nil, err
	}
	nodes := []string{}
	for _, broker := range found.Brokers {
		nodes = append(nodes, fmt.Sprintf("%s:%d", broker.Host, broker.Port))
	}
	return map[string]any{"id": found.Cluster, "controller": found.Controller, "nodes": nodes}, nil
}
