"""The behaviour catalogue as tests: each names the facts it proves."""
