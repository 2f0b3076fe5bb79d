"""The broker: executes the decisions of the group core and serves any Kafka client.

`server` and `connection` are the network, `handlers/` has one module per API, `broker` holds the state that handlers
use, `groups/` runs the group coordinator, `fetching/` has fetch sessions and waiting fetches, `storage/` the logs on
disk, `config/` the settings. `process` starts and stops a broker, `embedded/` runs one inside another program.
"""
