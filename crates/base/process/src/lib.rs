//! Process groups, their guardian, and signals.
