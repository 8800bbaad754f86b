//! The sizes at which a collection changes from its compact to its large form.

/// Encoding thresholds, named as Redis names its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodingLimits {
    /// Most fields of a hash kept as a listpack.
    pub hash_max_listpack_entries: usize,
    /// Longest field or value, in bytes, of a hash kept as a listpack.
    pub hash_max_listpack_value: usize,
    /// Size of a list node: entries when positive, a size class (-1 to -5: 4 to 64 KiB) when negative.
    pub list_max_listpack_size: i32,
    /// Accepted for compatibility; list nodes are never compressed.
    pub list_compress_depth: u32,
    /// Most members of a set kept as an intset.
    pub set_max_intset_entries: usize,
    /// Most members of a sorted set kept as a listpack.
    pub zset_max_listpack_entries: usize,
    /// Longest member, in bytes, of a sorted set kept as a listpack.
    pub zset_max_listpack_value: usize,
    /// Most bytes of one stream node; 0 means no bound.
    pub stream_node_max_bytes: usize,
    /// Most entries of one stream node; 0 means no bound.
    pub stream_node_max_entries: usize,
    /// Bytes above which a sparse HyperLogLog becomes dense.
    pub hll_sparse_max_bytes: usize,
}

impl Default for EncodingLimits {
    fn default() -> Self {
        EncodingLimits {
            hash_max_listpack_entries: 512,
            hash_max_listpack_value: 64,
            list_max_listpack_size: -2,
            list_compress_depth: 0,
            set_max_intset_entries: 512,
            zset_max_listpack_entries: 128,
            zset_max_listpack_value: 64,
            stream_node_max_bytes: 4096,
            stream_node_max_entries: 100,
            hll_sparse_max_bytes: 3000,
        }
    }
}
