//! RESP2 and RESP3 bytes to frames and back, without I/O.
//!
//! Requests are parsed in place: [`RequestParser`] remembers where each argument lies in the caller's
//! buffer and [`Args`] hands out slices of it. Replies are appended to a byte vector by [`Out`], which
//! knows which protocol its connection speaks. [`Frame`] is the tree form for callers that need one, and
//! [`FrameScanner`] finds where a reply ends for callers that do not.
//!
//! Nothing here allocates from a length that the other side merely claims.

#![forbid(unsafe_code)]

mod args;
mod request;

mod inline;
mod limits;

mod out;

mod frame;
mod scan;

mod big;
mod double;
mod extended;
mod number;

pub use args::{ArgVec, Args, ArgsIter};
pub use double::{format_double, format_human_double};
pub use extended::Extended;
pub use frame::{Frame, encode_request, parse_frame};
pub use limits::{Limits, ProtocolError};
pub use number::{parse_f64, parse_i64};
pub use out::{Mark, Out, Proto};
pub use request::{Parsed, RequestParser};
pub use scan::{FRAME_DEPTH_MAX, FrameError, FrameScanner, scan_frame};
