//! Limits on sizes and lengths of time.

use std::time::Duration;

/// Shortest and longest lease.
pub const LEASE_MIN: Duration = Duration::from_secs(1);
pub const LEASE_MAX: Duration = Duration::from_secs(24 * 3600);
/// Default lease of a job.
pub const LEASE_DEFAULT: Duration = Duration::from_secs(60);
/// Default number of retries after the first attempt.
pub const MAX_RETRIES_DEFAULT: u32 = 5;
pub const MAX_RETRIES_MAX: u32 = 1_000;
/// Priorities run from minus this to this; higher goes first.
pub const PRIORITY_MAX: i16 = 1_000;
/// How long an idempotency key is remembered by default.
pub const IDEMPOTENCY_WINDOW_DEFAULT: Duration = Duration::from_secs(24 * 3600);
/// Longest of any stated length of time: windows, retention, delays.
pub const SPAN_MAX: Duration = Duration::from_secs(366 * 24 * 3600);
/// Longest key of any sort, kind, tag, worker name, in bytes.
pub const KEY_BYTES_MAX: usize = 256;
pub const TAGS_MAX: usize = 16;
pub const DEPENDENCIES_MAX: usize = 1_000;
pub const URL_BYTES_MAX: usize = 2_048;
pub const HEADERS_MAX: usize = 32;
pub const HEADER_BYTES_MAX: usize = 1_024;
/// Longest stored error text, in bytes; the rest is cut off.
pub const ERROR_BYTES_MAX: usize = 16 << 10;
/// Longest stored log line, in bytes.
pub const LOG_LINE_BYTES_MAX: usize = 4 << 10;
/// Log lines kept for each job; the oldest go first.
pub const LOG_LINES_MAX: u64 = 1_000;
/// Late reports kept for each job; all are counted.
pub const LATE_REPORTS_MAX: usize = 16;
/// Progress becomes an event at most this often for each job; the newest is always readable on the job.
pub const PROGRESS_EVENT_GAP: Duration = Duration::from_secs(1);
/// Most jobs that one claim may ask for.
pub const CLAIM_MAX: usize = 1_024;
/// Most rows of one page of any listing.
pub const PAGE_MAX: usize = 1_000;

/// The limits that an operator sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub payload_bytes_max: usize,
    pub result_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            payload_bytes_max: 1 << 20,
            result_bytes_max: 1 << 20,
        }
    }
}
