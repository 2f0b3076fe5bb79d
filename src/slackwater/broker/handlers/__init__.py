"""One file per API: what its versions differ in, settled on the way in and on the way out.

Rules kept here
- A file opens with its version notes, and says in VERSIONS which versions it settles.
- `request` takes the fields of the wire under Kafka's names, with the wire's default for every field that some version
  lacks, and gives the core's message. A field that the version does not have is not looked at.
- `answer` gives exactly the fields that the version has, arrays as lists and structures as dicts.
- Both are pure, and decide nothing but what the version decides.
"""
