"""HTTP/1.1 as far as one server's API needs it, for threads and for asyncio."""
