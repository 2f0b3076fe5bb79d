"""The data source `slackwater`: options, schema, planning in the driver, reading on executors."""
