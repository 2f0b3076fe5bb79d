"""Partition logs on disk, in Apache Kafka's formats.

Invariants:
- An append returns after its bytes are written to the operating system, so `kill -9` loses nothing that was
  acknowledged. Data that must survive a power failure is flushed through `flush`.
- Kafka can read every file: segments, offset and time indexes, producer snapshots, `partition.metadata`. Kafka keeps
  the checkpoints of all partitions in one file per kind; here each partition directory has its own file.
- All functions are called from one thread. Only `Flush.run` and `cleaner.clean` may run in another thread.
- There is one clock: `now_ms` is always wall time, as an argument.

    partition_log     append, read, retention; the other modules serve it
    pending_appends   batches that are written together, and the checks of their producers
    timestamp_search  searches by time
    validation        checks on batches from producers
    producer_state    sequence numbers of idempotent producers and their snapshots
    segment, index    one segment file and its two indexes
    records           records inside a batch, where a log has to read them
    recovery          opening a log and truncating its damaged tail
    cleaner, swap     compaction and the replacement of segments
    flush             one fsync for many waiting appends
    checkpoint, files, config   checkpointed offsets, file names and writes, topic settings
"""
