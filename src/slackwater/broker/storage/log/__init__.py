"""Partition logs on disk, in Apache Kafka's own formats.

Rules kept here
- Acknowledged means written to the operating system: `append` returns after the write, and `kill -9` loses nothing.
  What has to survive a power cut is flushed through `flush`.
- A file of this package is a file Kafka reads: segments, offset and time indexes, producer snapshots, and
  `meta.properties`. What Kafka keeps for all partitions in one checkpoint stands in each partition's own directory.
- Everything is called from one thread, and time is an argument; `Flush.run` and `cleaner.clean` alone may be given to
  another thread.

    directory     the data directory of one broker: lock, meta.properties, a directory per partition
    partition_log appending, reading, retention; the rest serves it
    turn          what is appended together
    validation    what a producer may append
    producer_state  sequences of idempotent producers, and their snapshots
    segment, index  one segment file and the two indexes beside it
    records       the records inside a batch, where a log must look at them
    recovery      what is found on disk at the start, and what is cut off
    cleaner, swap compaction, and putting its outcome in place
    flush         fsync for many waiters at once
    checkpoint, files, config  four offsets, file names and writes, topic settings
"""
