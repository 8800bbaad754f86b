//! One request of a client and what became of it.

use nagaya_command_spec::table::Command;
use nagaya_reactor::Key;
use nagaya_resp::Args;

use super::in_flight::Origin;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handled {
    /// The next request can be handled.
    Done,
    /// The request is handled again once all earlier ones are answered.
    TooEarly,
    /// The request is handled again once the nodes are known.
    NoNodes,
}

/// One request of a client.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) client: Key,
    pub(crate) command: &'static Command,
    pub(crate) args: Args<'a>,
    /// The request as RESP, whatever form the client used.
    pub(crate) bytes: &'a [u8],
}

/// A part of a request that the cold tier answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ColdRead {
    /// The receiver of the answer.
    pub(crate) origin: Origin,
    pub(crate) kind: ColdReadKind,
}

/// What is read from the cold tier.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ColdReadKind {
    /// The number of keys in both tiers (DBSIZE).
    Count,
    /// All keys that match the request (KEYS).
    AllKeys,
    /// One page of keys (SCAN).
    Page { cursor: u64 },
}
