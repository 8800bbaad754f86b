"""The conformance suite of nagaya's client libraries; see README.md beside this folder."""
