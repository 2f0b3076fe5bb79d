// A test client with Sarama: each run executes one command and prints JSON objects, one per line.
//
//	sarama BOOTSTRAP KAFKA_VERSION produce TOPIC PREFIX COUNT CODEC
//	sarama BOOTSTRAP KAFKA_VERSION consume TOPIC COUNT
//	sarama BOOTSTRAP KAFKA_VERSION member GROUP TOPIC ASSIGNOR SESSION_MS      (until standard input ends)
//	sarama BOOTSTRAP KAFKA_VERSION commit GROUP TOPIC PARTITION OFFSET
//	sarama BOOTSTRAP KAFKA_VERSION seek GROUP TOPIC PARTITION OFFSET COUNT
//	sarama BOOTSTRAP KAFKA_VERSION admin TOPIC GROUP
//
// interop/kafkajs/client.js takes the same commands and prints the same lines.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/IBM/sarama"
)

type line map[string]any

var printLock sync.Mutex

func printLine(content line) {
	printLock.Lock()
	defer printLock.Unlock()
	text, err := json.Marshal(content)
	must(err)
	fmt.Println(string(text))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "sarama:", err)
		os.Exit(1)
	}
}

func number(text string) int64 {
	value, err := strconv.ParseInt(text, 10, 64)
	must(err)
	return value
}

func partitionNumber(text string) int32 {
	return int32(number(text))
}

func main() {
	commands := map[string]struct {
		arguments int
		run       func(brokers []string, config *sarama.Config, arguments []string)
	}{
		"produce": {4, produce},
		"consume": {2, consume},
		"member":  {4, member},
		"commit":  {4, commit},
		"seek":    {5, seek},
		"admin":   {2, administer},
	}
	if len(os.Args) < 4 {
		must(fmt.Errorf("usage: sarama BOOTSTRAP KAFKA_VERSION COMMAND ARGUMENT...; got %q", os.Args[1:]))
	}
	command, known := commands[os.Args[3]]
	arguments := os.Args[4:]
	if !known || len(arguments) != command.arguments {
		must(fmt.Errorf("unknown command, or the wrong number of arguments: %q", os.Args[3:]))
	}
	version, err := sarama.ParseKafkaVersion(os.Args[2])
	must(err)
	config := sarama.NewConfig()
	config.ClientID = "sarama-" + os.Args[3]
	config.Version = version
	secure(config)
	command.run(strings.Split(os.Args[1], ","), config, arguments)
}
