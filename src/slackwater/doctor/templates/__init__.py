"""Log-line templates, one module per client library and one for brokers."""
