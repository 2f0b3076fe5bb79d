"""What happens on a connection before its first request: TLS, SASL, limits."""
