//! The requests in progress in this process. A reader can wait for one of them instead of polling the store.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

/// All requests in progress. Bounded, because requests with running jobs are.
#[derive(Debug, Default)]
pub(crate) struct Live {
    requests: Mutex<HashMap<Arc<str>, watch::Sender<u64>>>,
}

/// One request in progress; dropping it unregisters.
#[derive(Debug)]
pub(crate) struct Working {
    id: Arc<str>,
    live: Arc<Live>,
}

impl Live {
    pub(crate) fn begin(self: &Arc<Live>, id: &Arc<str>) -> Working {
        let sender = watch::Sender::new(0);
        self.requests.lock().insert(Arc::clone(id), sender);
        Working {
            id: Arc::clone(id),
            live: Arc::clone(self),
        }
    }

    /// Returns a receiver that changes with every write for a request and closes at its end.
    pub(crate) fn watch(&self, id: &str) -> Option<watch::Receiver<u64>> {
        self.requests.lock().get(id).map(watch::Sender::subscribe)
    }

    pub(crate) fn len(&self) -> usize {
        self.requests.lock().len()
    }

    /// Returns how many readers wait for a request.
    pub(crate) fn readers(&self) -> usize {
        self.requests
            .lock()
            .values()
            .map(watch::Sender::receiver_count)
            .sum()
    }
}

impl Working {
    /// Notifies readers that the store has more.
    pub(crate) fn progress(&self) {
        if let Some(sender) = self.live.requests.lock().get(&self.id) {
            sender.send_modify(|version| *version += 1);
        }
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.live.requests.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn readers_learn_of_progress_and_of_the_end() {
        let live = Arc::new(Live::default());
        let working = live.begin(&"i".into());
        let mut reader = live.watch("i").unwrap();
        working.progress();
        reader.changed().await.unwrap();
        drop(working);
        assert!(reader.changed().await.is_err());
        assert!(live.watch("i").is_none());
        assert_eq!(live.len(), 0);
    }
}
