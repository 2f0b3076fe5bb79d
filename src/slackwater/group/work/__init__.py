"""The work scheduler behind Consumer.run, as a state machine without I/O."""
