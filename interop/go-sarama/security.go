package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"os"
	"strings"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

// secure sets TLS and SASL from the environment variable KAFKA_SECURITY, which is a JSON object with librdkafka's
// names, and `token`.
func secure(config *sarama.Config) {
	settings := map[string]string{}
	if given := os.Getenv("KAFKA_SECURITY"); given != "" {
		must(json.Unmarshal([]byte(given), &settings))
	}
	if strings.HasSuffix(settings["security.protocol"], "SSL") {
		config.Net.TLS.Enable = true
		config.Net.TLS.Config = tlsConfig(settings)
	}
	name := settings["sasl.mechanism"]
	if name == "" {
		return
	}
	config.Net.SASL.Enable = true
	config.Net.SASL.Mechanism = sarama.SASLMechanism(name)
	config.Net.SASL.User, config.Net.SASL.Password = settings["sasl.username"], settings["sasl.password"]
	config.Net.SASL.TokenProvider = tokenProvider(settings["token"])
	config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient {
		hash := scram.SHA256
		if name == sarama.SASLTypeSCRAMSHA512 {
			hash = scram.SHA512
		}
		return &scramClient{hash: hash}
	}
}

func tlsConfig(settings map[string]string) *tls.Config {
	authority, err := os.ReadFile(settings["ssl.ca.location"])
	must(err)
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(authority)
	if path := settings["ssl.certificate.location"]; path != "" {
		certificate, err := tls.LoadX509KeyPair(path, settings["ssl.key.location"])
		must(err)
		config.Certificates = []tls.Certificate{certificate}
	}
	return config
}

type tokenProvider string

func (token tokenProvider) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: string(token)}, nil
}

// A scramClient is a conversation of github.com/xdg-go/scram, with which Sarama's users authenticate.
type scramClient struct {
	hash         scram.HashGeneratorFcn
	conversation *scram.ClientConversation
}

func (c *scramClient) Begin(user, password, authorization string) error {
	client, err := c.hash.NewClient(user, password, authorization)
	if err == nil {
		c.conversation = client.NewConversation()
	}
	return err
}

func (c *scramClient) Step(challenge string) (string, error) {
	return c.conversation.Step(challenge)
}

func (c *scramClient) Done() bool {
	return c.conversation.Done()
}
