"""TLS, SASL and ACLs, without sockets. The clients and the broker build on it."""
