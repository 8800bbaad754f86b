//! Problem documents, HTTP client and server parts that all services share.
