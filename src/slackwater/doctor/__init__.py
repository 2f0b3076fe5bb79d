"""The storm doctor: what log lines say, and what it means. Pure: no I/O, no Spark, no clock."""
