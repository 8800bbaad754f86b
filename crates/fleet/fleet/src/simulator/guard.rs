//! The rules that keep the fleet safe, so that a search can run without one of them.
//!
//! The real loops know nothing of this. The simulator disables a rule from outside, by giving a core a wrong
//! time or by leaving a comparison out of its store.

/// A rule of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Guard {
    /// A lease counts from the sending of the heartbeat, not from its reply.
    LeaseFromSending,
    /// A heartbeat is seen when the reply that shows it arrives, not when it was requested.
    SeenAtReceipt,
    /// A death is declared for exactly the incarnation and heartbeat that were seen.
    DeathCompares,
    /// A heartbeat counts only for the incarnation that holds the name.
    HeartbeatCompares,
    /// After a join whose previous incarnation is not proven over, nothing is started for Q.
    QuarantineAtJoin,
    /// During a quarantine no stop is acknowledged.
    QuarantineOfStops,
    /// After a new run nothing is started for Q.
    QuarantineAfterFailover,
    /// A join draws new epochs for all workers of the instance.
    JoinRenewsEpochs,
    /// A stop is acknowledged when the process is gone, not when it was asked to stop.
    StopThenAcknowledge,
    /// An acknowledged stop names the epoch that was stopped.
    StopCompares,
    /// Only a waiting worker with the epoch that was seen is assigned.
    AssignCompares,
    /// Workers are assigned to live incarnations only.
    AssignChecksTarget,
    /// A leaving instance stops its workers before others get them.
    LeaveStopsFirst,
    /// An agent follows only the list of the reply that renews its lease.
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
