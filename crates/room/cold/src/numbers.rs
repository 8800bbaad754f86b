//! The numbers that stand for kinds and statuses in columns. A number is never reused.

use nagaya_tiering::cold::{Kind, Status};

pub(crate) fn of_kind(kind: Kind) -> i16 {
    match kind {
        Kind::String => 0,
        Kind::List => 1,
        Kind::Set => 2,
        Kind::SortedSet => 3,
        Kind::Hash => 4,
        Kind::Stream => 5,
    }
}

pub(crate) fn kind(number: i64) -> Option<Kind> {
    Kind::ALL
        .into_iter()
        .find(|&kind| i64::from(of_kind(kind)) == number)
}

pub(crate) fn of_status(status: Status) -> i16 {
    match status {
        Status::NeedSynced => 0,
        Status::Synced => 1,
        Status::Cleaned => 2,
    }
}

pub(crate) fn status(number: i64) -> Option<Status> {
    [Status::NeedSynced, Status::Synced, Status::Cleaned]
        .into_iter()
        .find(|&status| i64::from(of_status(status)) == number)
}
