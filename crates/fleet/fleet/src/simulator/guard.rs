//! What keeps the fleet safe, one rule each, so that a hunt can be made without it.
//!
//! The real loops know nothing of this: the simulator takes a rule away around them, by telling a core
//! a wrong moment or by leaving a comparison out of its store.

/// A rule of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Guard {
    /// A lease counts from the sending of the heartbeat, not from its answer.
    LeaseFromSending,
    /// A heartbeat is seen when the answer that shows it arrives, not when it was asked for.
    SeenAtReceipt,
    /// A death is declared of the very incarnation and heartbeat that were seen.
    DeathCompares,
    /// A heartbeat counts only for the incarnation that has the name.
    HeartbeatCompares,
    /// A join whose last incarnation is not proven over starts nothing for Q.
    QuarantineAtJoin,
    /// During a quarantine no stop is acknowledged.
    QuarantineOfStops,
    /// After a new run nothing is started for Q.
    QuarantineAfterFailover,
    /// A join draws new epochs for all workers of that name.
    JoinRenewsEpochs,
    /// A stop is acknowledged when the process is gone, not when it was asked to go.
    StopThenAcknowledge,
    /// An acknowledged stop names the epoch that was stopped.
    StopCompares,
    /// Only a waiting worker, with the epoch that was seen, is assigned.
    AssignCompares,
    /// Only a living incarnation is assigned to.
    AssignChecksTarget,
    /// Who leaves stops its workers before others get them.
    LeaveStopsFirst,
    /// An agent follows the list of the answer that renews its lease, and no other.
    ListWithLease,
}

impl Guard {
    pub const ALL: [Guard; 14] = [
        Guard::LeaseFromSending,
        Guard::SeenAtReceipt,
        Guard::DeathCompares,
        Guard::HeartbeatCompares,
        Guard::QuarantineAtJoin,
        Guard::QuarantineOfStops,
        Guard::QuarantineAfterFailover,
        Guard::JoinRenewsEpochs,
        Guard::StopThenAcknowledge,
        Guard::StopCompares,
        Guard::AssignCompares,
        Guard::AssignChecksTarget,
        Guard::LeaveStopsFirst,
        Guard::ListWithLease,
    ];
}
