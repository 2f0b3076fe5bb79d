"""Consumer groups without I/O: no sockets, no clock, no threads, no logging, no randomness.

Numbers such as JG-08 or CO-06, here and in the whole source, are ids of facts in `docs/kafka-behaviours.md`: each one
states a behaviour of Kafka's broker or client. The letters name the subject: JG is JoinGroup, SG SyncGroup, HB
heartbeats, ST group states, CL the client, and so on. A test marked `proves("JG-08")` proves that fact.

- `coordinator/`: the group coordinator, run by the broker and the simulator.
- `member/`: a consumer's side of the protocol, run by the client, by Spark queries and by the simulator.
- `assignors/`: the assignment strategies, as pure functions.
- `batches/`: the micro-batches of a Spark query that is a group member. It is here, not in `spark/`, because it is a
  state machine without I/O that decides which offsets a member reads and commits.
- `work/`: the scheduler of `Consumer.run`, which gives records to parallel workers and decides which offsets can be
  committed. It is here, not in `client/`, for the same reason.
- `messages.py`, `events.py`, `errors.py`: the requests and responses, the published events, and the error codes.

Invariants:
- The coordinator, the member, the batches and the scheduler are state machines. A call takes one input and the time,
  and returns an ordered list of effects; a shell (broker, client, simulator) executes them in that order.
- Every change of a group is published once, as a `GroupEvent` (`events.py`).
- Error codes are in one table (`errors.py`).
- This package imports nothing of Slackwater outside `group/`.
"""
