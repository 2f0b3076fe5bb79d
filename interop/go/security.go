package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// connect returns the options of a client: the address, TLS and SASL, and the given options. TLS and SASL come from
// the environment variable KAFKA_SECURITY, which is a JSON object with librdkafka's names, and `token`.
func connect(bootstrap string, options ...kgo.Opt) []kgo.Opt {
	settings := map[string]string{}
	if given := os.Getenv("KAFKA_SECURITY"); given != "" {
		must(json.Unmarshal([]byte(given), &settings))
	}
	options = append(options, kgo.SeedBrokers(bootstrap))
	if strings.HasSuffix(settings["security.protocol"], "SSL") {
		options = append(options, kgo.DialTLSConfig(tlsConfig(settings)))
	}
	if name := settings["sasl.mechanism"]; name != "" {
		options = append(options, kgo.SASL(mechanism(name, settings)))
	}
	return options
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

func mechanism(name string, settings map[string]string) sasl.Mechanism {
	user, password := settings["sasl.username"], settings["sasl.password"]
	switch name {
	case "PLAIN":
		return plain.Auth{User: user, Pass: password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: user, Pass: password}.AsSha512Mechanism()
	case "OAUTHBEARER":
		return oauth.Oauth(func(context.Context) (oauth.Auth, error) {
			return oauth.Auth{Token: settings["token"]}, nil
		})
	}
	panic("unknown mechanism: " + name)
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "franz-go:", err)
		os.Exit(1)
	}
}
