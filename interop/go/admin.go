package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
)

// administer executes the commands that need the admin client.
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
		topics, err := d.admin.ListTopics(ctx)
		return topics.Names(), err
	case "partitions":
		topics, err := d.admin.ListTopics(ctx, topic)
		if err != nil {
			return nil, err
		}
		return len(topics[topic].Partitions), topics[topic].Err
	case "add_partitions":
		responses, err := d.admin.UpdatePartitions(ctx, get[int](c, "total"), topic)
		if err != nil {
			return nil, err
		}
		return nil, responses[topic].Err
	case "config":
		return d.config(ctx, topic, get[string](c, "name"))
	case "set_config":
		value := get[string](c, "value")
		change := kadm.AlterConfig{Op: kadm.SetConfig, Name: get[string](c, "name"), Value: &value}
		responses, err := d.admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{change}, topic)
		if err != nil {
			return nil, err
		}
		return nil, responses[0].Err
	case "delete_records":
		return d.deleteRecords(ctx, topic, get[int32](c, "partition"), get[int64](c, "before"))
	case "groups":
		groups, err := d.admin.ListGroups(ctx)
		return groups.Groups(), err
	case "group":
		return d.group(ctx, group)
	case "group_offsets":
		return d.groupOffsets(ctx, group)
	case "set_group_offsets":
		commits := kadm.Offsets{}
		for name, offset := range get[map[string]int64](c, "offsets") {
			topic, partition := split(name)
			commits.AddOffset(topic, partition, offset, -1)
		}
		return nil, d.admin.CommitAllOffsets(ctx, group, commits)
	case "delete_group_offsets":
		partitions := kadm.TopicsSet{}
		for _, name := range get[[]string](c, "partitions") {
			topic, partition := split(name)
			partitions.Add(topic, partition)
		}
		responses, err := d.admin.DeleteOffsets(ctx, group, partitions)
		if err != nil {
			return nil, err
		}
		return nil, responses.Error()
	case "delete_group":
		_, err := d.admin.DeleteGroup(ctx, group)
		return nil, err
	case "cluster":
		return d.cluster(ctx)
	default:
		return nil, fmt.Errorf("unknown command: %s", do)
	}
}

func (d *driver) config(ctx context.Context, topic, name string) (any, error) {
	configs, err := d.admin.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return nil, err
	}
	for _, config := range configs[0].Configs {
		if config.Key == name {
			return config.MaybeValue(), nil
		}
	}
	return nil, configs[0].Err
}

func (d *driver) deleteRecords(ctx context.Context, topic string, partition int32, before int64) (any, error) {
	offsets := kadm.Offsets{}
	offsets.AddOffset(topic, partition, before, -1)
	responses, err := d.admin.DeleteRecords(ctx, offsets)
	if err != nil {
		return nil, err
	}
	response, _ := responses.Lookup(topic, partition)
	return response.LowWatermark, response.Err
}

func (d *driver) group(ctx context.Context, group string) (any, error) {
	groups, err := d.admin.DescribeGroups(ctx, group)
	if err != nil {
		return nil, err
	}
	description := groups[group]
	members := map[string][]string{}
	for _, member := range description.Members {
		assigned := map[string][]int32{}
		if assignment, ok := member.Assigned.AsConsumer(); ok {
			for _, topic := range assignment.Topics {
				assigned[topic.Topic] = topic.Partitions
			}
		}
		members[member.ClientID] = names(assigned)
	}
	return map[string]any{"state": description.State, "protocol": description.Protocol, "members": members}, description.Err
}

func (d *driver) groupOffsets(ctx context.Context, group string) (any, error) {
	fetched, err := d.admin.FetchOffsets(ctx, group)
	if err != nil {
		return nil, err
	}
	offsets := map[string]int64{}
	fetched.Each(func(response kadm.OffsetResponse) {
		offsets[fmt.Sprintf("%s-%d", response.Topic, response.Partition)] = response.At
	})
	return offsets, fetched.Error()
}

// committed returns a partition's committed offset and metadata, or null.
func (d *driver) committed(ctx context.Context, group, name string) (any, error) {
	fetched, err := d.admin.FetchOffsets(ctx, group)
	if err != nil {
		return nil, err
	}
	topic, partition := split(name)
	response, ok := fetched.Lookup(topic, partition)
	if !ok {
		return nil, nil
	}
	return pair{response.At, response.Metadata}, response.Err
}

func (d *driver) cluster(ctx context.Context) (any, error) {
	metadata, err := d.admin.BrokerMetadata(ctx)
	if err != nil {
		return nil, err
	}
	nodes := []string{}
	for _, broker := range metadata.Brokers {
		nodes = append(nodes, fmt.Sprintf("%s:%d", broker.Host, broker.Port))
	}
	return map[string]any{"id": metadata.Cluster, "controller": metadata.Controller, "nodes": nodes}, nil
}
