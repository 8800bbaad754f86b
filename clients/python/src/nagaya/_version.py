"""The version of this library; it need not equal the server's."""

__version__ = "0.1.0"
