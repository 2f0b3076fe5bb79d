package main

import (
	"errors"
	"slices"

	"github.com/IBM/sarama"
)

// administer creates TOPIC, changes it, describes it and GROUP (which commits to it), and deletes both.
func administer(brokers []string, config *sarama.Config, arguments []string) {
	topic, group := arguments[0], arguments[1]
	admin, err := sarama.NewClusterAdmin(brokers, config)
	must(err)
	defer admin.Close()
	retention, longer := "60000", "120000"
	detail := sarama.TopicDetail{NumPartitions: 2, ReplicationFactor: 1, ConfigEntries: map[string]*string{"retention.ms": &retention}}
	must(admin.CreateTopic(topic, &detail, false))
	existing := admin.CreateTopic(topic, &detail, false)
	topics, err := admin.ListTopics()
	must(err)
	printLine(line{"step": "create", "partitions": topics[topic].NumPartitions, "exists": errors.Is(existing, sarama.ErrTopicAlreadyExists)})

	must(admin.CreatePartitions(topic, 3, nil, false))
	descriptions, err := admin.DescribeTopics([]string{topic})
	must(err)
	printLine(line{"step": "partitions", "partitions": len(descriptions[0].Partitions)})

	before := setting(admin, topic)
	must(admin.AlterConfig(sarama.TopicResource, topic, map[string]*string{"retention.ms": &longer}, false))
	printLine(line{"step": "configs", "before": before, "after": setting(admin, topic)})

	nodes, _, err := admin.DescribeCluster()
	must(err)
	printLine(line{"step": "cluster", "brokers": len(nodes)})

	produce(brokers, copyConfig(config), []string{topic, "admin", "30", "none"})
	commit(brokers, copyConfig(config), []string{group, topic, "0", "7"})
	groups, err := admin.ListConsumerGroups()
	must(err)
	states, err := admin.DescribeConsumerGroups([]string{group})
	must(err)
	offsets, err := admin.ListConsumerGroupOffsets(group, map[string][]int32{topic: {0}})
	must(err)
	_, listed := groups[group]
	printLine(line{"step": "groups", "listed": listed, "state": states[0].State, "offset": offsets.Blocks[topic][0].Offset})

	must(admin.DeleteRecords(topic, map[int32]int64{0: 4}))
	printLine(line{"step": "records", "low": bound(brokers, config, topic, sarama.OffsetOldest), "high": bound(brokers, config, topic, sarama.OffsetNewest)})

	must(admin.DeleteConsumerGroup(group))
	groups, err = admin.ListConsumerGroups()
	must(err)
	_, listed = groups[group]
	must(admin.DeleteTopic(topic))
	printLine(line{"step": "delete", "group": listed})
}

func copyConfig(config *sarama.Config) *sarama.Config {
	copied := sarama.NewConfig()
	copied.ClientID, copied.Version = config.ClientID, config.Version
	secure(copied)
	return copied
}

func setting(admin sarama.ClusterAdmin, topic string) string {
	resource := sarama.ConfigResource{Type: sarama.TopicResource, Name: topic, ConfigNames: []string{"retention.ms"}}
	entries, err := admin.DescribeConfig(resource)
	must(err)
	at := slices.IndexFunc(entries, func(entry sarama.ConfigEntry) bool { return entry.Name == "retention.ms" })
	if at < 0 {
		return ""
	}
	return entries[at].Value
}

func bound(brokers []string, config *sarama.Config, topic string, which int64) int64 {
	client, err := sarama.NewClient(brokers, config)
	must(err)
	defer client.Close()
	offset, err := client.GetOffset(topic, 0, which)
	must(err)
	return offset
}
