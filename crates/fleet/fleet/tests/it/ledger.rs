//! Records which copy ran where and when, written by the workers themselves.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nagaya_clock::{BootTime, boot_now};
use nagaya_fleet::agent::{BoxFuture, CodeError, Identity, Worker};

/// One copy of a worker.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    pub(crate) worker: String,
    pub(crate) instance: String,
    pub(crate) epoch: u64,
    pub(crate) from: BootTime,
    pub(crate) until: Option<BootTime>,
    pub(crate) config: Vec<u8>,
}

/// All copies of a test.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Arc<Mutex<Vec<Copy>>>);

impl Ledger {
    pub(crate) fn maker(&self) -> impl Fn(&Identity) -> Recorder + Send + Sync + 'static {
        let ledger = self.clone();
        move |identity| Recorder {
            ledger: ledger.clone(),
            identity: identity.clone(),
            at: None,
            slow_end: false,
        }
    }

    pub(crate) fn copies(&self) -> Vec<Copy> {
        self.0.lock().unwrap().clone()
    }

    /// Maps workers to instances, for the copies that run now.
    pub(crate) fn running(&self) -> BTreeMap<String, String> {
        let copies = self.copies();
        let running = copies.iter().filter(|copy| copy.until.is_none());
        running
            .map(|copy| (copy.worker.clone(), copy.instance.clone()))
            .collect()
    }

    pub(crate) fn running_on(&self, instance: &str) -> usize {
        self.running().values().filter(|name| *name == instance).count()
    }

    /// Panics if two copies of a worker ever ran at once, or if a later one had a lower epoch.
    pub(crate) fn check(&self) {
        let mut by_worker: BTreeMap<String, Vec<Copy>> = BTreeMap::new();
        for copy in self.copies() {
            by_worker.entry(copy.worker.clone()).or_default().push(copy);
        }
        for (worker, mut copies) in by_worker {
            copies.sort_by_key(|copy| copy.from);
            for pair in copies.windows(2) {
                let over = pair[0].until.is_some_and(|until| until <= pair[1].from);
                assert!(over, "two copies of {worker}: {pair:#?}");
                assert!(pair[0].epoch <= pair[1].epoch, "epochs of {worker}: {pair:#?}");
            }
        }
    }
}

/// A worker that records that it is alive.
pub(crate) struct Recorder {
    ledger: Ledger,
    identity: Identity,
    at: Option<usize>,
    slow_end: bool,
}

impl Recorder {
    fn note_config(&self, config: &[u8]) {
        if let Some(at) = self.at {
            self.ledger.0.lock().unwrap()[at].config = config.to_vec();
        }
    }
}

impl Worker for Recorder {
    fn on_start<'a>(&'a mut self, config: Arc<[u8]>) -> BoxFuture<'a, Result<(), CodeError>> {
        Box::pin(async move {
            if config.starts_with(b"hang") {
                std::future::pending::<()>().await;
            }
            if config.starts_with(b"fail") {
                return Err("told to fail".into());
            }
            self.slow_end = config.starts_with(b"slow end");
            let mut copies = self.ledger.0.lock().unwrap();
            self.at = Some(copies.len());
            copies.push(Copy {
                worker: self.identity.worker.to_string(),
                instance: self.identity.instance.to_string(),
                epoch: self.identity.epoch,
                from: boot_now(),
                until: None,
                config: config.to_vec(),
            });
            Ok(())
        })
    }

    fn on_update<'a>(&'a mut self, config: Arc<[u8]>) -> BoxFuture<'a, Result<(), CodeError>> {
        Box::pin(async move {
            self.note_config(&config);
            Ok(())
        })
    }

    fn on_request<'a>(&'a mut self, key: String) -> BoxFuture<'a, Result<String, CodeError>> {
        Box::pin(async move {
            match key.as_str() {
                "hang" => std::future::pending().await,
                "fail" => Err("no".into()),
                _ => Ok(format!("{key} of {}", self.identity.worker)),
            }
        })
    }

    fn on_end(&mut self) -> BoxFuture<'_, ()> {
        let pause = if self.slow_end { 300 } else { 0 };
        Box::pin(tokio::time::sleep(Duration::from_millis(pause)))
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if let Some(at) = self.at {
            self.ledger.0.lock().unwrap()[at].until = Some(boot_now());
        }
    }
}
