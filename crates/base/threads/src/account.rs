//! On whose account a thread allocates memory.
//!
//! The allocator counts what a thread takes and gives back on the account that the thread is on. A service whose
//! memory is limited has an account of its own, so that no other service can use up its limit. For the sums to
//! stay right, what is allocated on an account must be freed on it: a service puts all of its threads on its
//! account, and shares no allocations with others except for a few that live as long as it does.

use std::cell::Cell;
use std::marker::PhantomData;

/// Who pays for memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Account {
    /// Everything that has no account of its own.
    #[default]
    Rest,
    /// The room: what `room.max_memory` limits.
    Room,
    /// The engine that the server itself uses.
    Backroom,
}

impl Account {
    /// The number of accounts.
    pub const COUNT: usize = 3;
}

thread_local! {
    static CURRENT: Cell<Account> = const { Cell::new(Account::Rest) };
}

/// Returns the account of the calling thread. Never allocates.
#[inline]
pub fn account() -> Account {
    CURRENT.with(Cell::get)
}

/// Puts the calling thread on an account until the result is dropped. Threads that it starts meanwhile with
/// [`spawn`](crate::spawn) stay on that account.
pub fn on_account(account: Account) -> OnAccount {
    OnAccount {
        before: CURRENT.with(|current| current.replace(account)),
        _thread: PhantomData,
    }
}

/// Ends a stay on an account when it is dropped.
#[derive(Debug)]
#[must_use = "the thread leaves the account when this is dropped"]
pub struct OnAccount {
    before: Account,
    /// It belongs to its thread.
    _thread: PhantomData<*const ()>,
}

impl Drop for OnAccount {
    fn drop(&mut self) {
        CURRENT.with(|current| current.set(self.before));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_inherits_the_account_of_the_one_that_starts_it() {
        assert_eq!(account(), Account::Rest);
        let stay = on_account(Account::Room);
        let inner = on_account(Account::Backroom);
        assert_eq!(account(), Account::Backroom);
        drop(inner);
        let (tell, told) = std::sync::mpsc::channel();
        let started = crate::spawn("inheriting", move || tell.send(account()).unwrap()).unwrap();
        drop(stay);
        assert_eq!(told.recv(), Ok(Account::Room));
        started.join().unwrap();
        assert_eq!(account(), Account::Rest);
    }
}
