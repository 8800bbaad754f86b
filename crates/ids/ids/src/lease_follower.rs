//! Gives the mint the numbers that a lease holder gets.

use std::sync::Arc;

use tokio::sync::watch;

use crate::lease::Status;
use crate::mint::Mint;
use crate::permit::Permit;

/// Lets `mint` use each number that the holder opens, until the holder has ended.
///
/// Safety does not depend on how soon this hears of a change: a window that is over or ended
/// refuses by itself. Cancel safe; a dropped call leaves the mint with the last window.
pub async fn follow(mint: &Mint, mut status: watch::Receiver<Status>) {
    loop {
        let permit = permit_of(&status.borrow_and_update());
        mint.set_permit(permit);
        if status.changed().await.is_err() {
            return mint.set_permit(None);
        }
    }
}

fn permit_of(status: &Status) -> Option<Arc<dyn Permit>> {
    match status {
        Status::Open(window) => Some(Arc::clone(window) as _),
        Status::Seeking { .. } | Status::Waiting { .. } | Status::Ended(_) => None,
    }
}
