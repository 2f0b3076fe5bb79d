"""The data source `slackwater`: options, columns, planning, and reading on executors."""
