//! Brings tags into memory: one load per tag, however many callers want it.
//!
//! A load reads the base generation from the cold tier *before* it begins in the hot
//! tier. So a load that replaces it has read a base at least as new, and the
//! replaced one's claim fails instead of fencing off the live residency.
//! Then it claims the tag, which moves its generation and reads its rows in one
//! transaction, and installs them in chunks.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use crate::cold::{Claimed, ColdTier, Loaded, Row, Version};
use crate::error::TieringError;
use crate::hot::{Chunk, HotTier, Installed};
use crate::protocol::{LoadStart, Part, Token, Tokens, Touched};
use nagaya_clock::Sleep;

/// One attempt to load one tag, without I/O: says what to do next and takes the result. `C` is what is
/// installed at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Load<C> {
    #[default]
    ReadBase,
    Begin {
        base: Option<u64>,
    },
    Claim {
        base: Option<u64>,
        token: Token,
    },
    Install {
        token: Token,
        chunks: VecDeque<C>,
    },
    Over(Outcome),
}

/// How a load ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The tag is hot.
    Hot,
    /// Another loader has replaced this load, or the node has restarted: touch again.
    Lost,
}

impl<C> Load<C> {
    pub fn base_read(&mut self, base: Option<u64>) {
        *self = Load::Begin { base };
    }

    /// Takes the result of a begin that was made with this fresh token.
    pub fn begun(&mut self, token: Token, begun: LoadStart) {
        let Load::Begin { base } = *self else {
            unreachable!("a begin is answered only when it was asked for");
        };
        *self = match begun {
            LoadStart::Begun => Load::Claim { base, token },
            LoadStart::Resident => Load::Over(Outcome::Hot),
        };
    }

    /// Takes what the claim read, or `None` when the tag has moved.
    pub fn claimed(&mut self, chunks: Option<VecDeque<C>>) {
        let Load::Claim { token, .. } = *self else {
            unreachable!("a claim is answered only when it was asked for");
        };
        *self = match chunks {
            Some(chunks) => Load::Install { token, chunks },
            // Start over: the base is too old, and the next begin needs a token of its own.
            None => Load::ReadBase,
        };
    }

    pub fn installed(&mut self, installed: Installed) {
        let Load::Install { chunks, .. } = self else {
            unreachable!("a chunk is answered only when it was sent");
        };
        chunks.pop_front();
        match installed {
            Installed::Put if !chunks.is_empty() => (),
            Installed::Put | Installed::Kept => *self = Load::Over(Outcome::Hot),
            Installed::Lost => *self = Load::Over(Outcome::Lost),
        }
    }
}

/// Joins concurrent loads of one tag: the first caller loads it, later ones leave a waiter.
#[derive(Debug)]
pub struct LoadCoalescer<W> {
    waiting: HashMap<Vec<u8>, Vec<W>>,
}

impl<W> Default for LoadCoalescer<W> {
    fn default() -> LoadCoalescer<W> {
        LoadCoalescer {
            waiting: HashMap::new(),
        }
    }
}

impl<W> LoadCoalescer<W> {
    /// Joins the load of a tag; returns whether the caller is the first and must load it.
    pub fn join(&mut self, tag: &[u8], waiter: W) -> bool {
        if let Some(waiters) = self.waiting.get_mut(tag) {
            waiters.push(waiter);
            return false;
        }
        self.waiting.insert(tag.to_vec(), vec![waiter]);
        true
    }

    /// Returns whether a tag is being loaded.
    pub fn is_under_way(&self, tag: &[u8]) -> bool {
        self.waiting.contains_key(tag)
    }

    /// Ends the load of a tag and returns its waiters.
    pub fn finish(&mut self, tag: &[u8]) -> Vec<W> {
        self.waiting.remove(tag).unwrap_or_default()
    }

    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// Settings of a loader.
#[derive(Clone, Copy, Debug)]
pub struct LoaderConfig {
    /// A chunk is closed when it holds this many bytes of names and payloads.
    pub chunk_bytes: usize,
    /// How often to check whether another loader's load is done.
    pub poll: Duration,
    /// How long another loader's load may take before it is taken over. Doubles with each take-over.
    pub patience: Duration,
}

impl Default for LoaderConfig {
    fn default() -> LoaderConfig {
        LoaderConfig {
            chunk_bytes: 1 << 20,
            poll: Duration::from_millis(10),
            patience: Duration::from_secs(5),
        }
    }
}

type LoadOutcome = Result<(), Arc<TieringError>>;

/// Loads tags on the callers' threads.
pub struct Loader {
    hot: Arc<dyn HotTier>,
    cold: Arc<dyn ColdTier>,
    clock: Arc<dyn Sleep>,
    config: LoaderConfig,
    tokens: Tokens,
    loads: Mutex<LoadCoalescer<mpsc::Sender<LoadOutcome>>>,
}

impl Loader {
    pub fn new(
        hot: Arc<dyn HotTier>,
        cold: Arc<dyn ColdTier>,
        clock: Arc<dyn Sleep>,
        config: LoaderConfig,
    ) -> Loader {
        Loader {
            hot,
            cold,
            clock,
            config,
            tokens: Tokens::default(),
            loads: Mutex::default(),
        }
    }

    /// Returns when the tag is hot. A caller that asks during the load waits for it and shares its
    /// outcome.
    pub fn load(&self, tag: &[u8]) -> LoadOutcome {
        let (sender, ending) = mpsc::channel();
        if self.loads().join(tag, sender) {
            // Finishes the load also when a tier panics, so that no caller waits forever.
            let guard = LoadGuard { loader: self, tag };
            let result = self.make_hot(tag).map_err(Arc::new);
            for waiter in self.loads().finish(guard.tag) {
                // A waiter that has gone needs no answer.
                let _gone = waiter.send(result.clone());
            }
        }
        ending.recv().expect("the load that was joined has panicked")
    }

    fn make_hot(&self, tag: &[u8]) -> Result<(), TieringError> {
        let mut patience = self.config.patience;
        loop {
            let touched = self.hot.touch(&[tag])?[0];
            if touched == Touched::Granted {
                return Ok(());
            }
            if touched == Touched::Wait {
                if self.wait_for_other_load(tag, patience)? {
                    continue;
                }
                patience *= 2;
            }
            if self.run(tag)? == Outcome::Hot {
                return Ok(());
            }
        }
    }

    /// Waits for another loader's load; returns whether the tag left that state in time.
    fn wait_for_other_load(&self, tag: &[u8], patience: Duration) -> Result<bool, TieringError> {
        let start = self.clock.steady();
        while self.clock.steady() - start < patience {
            self.clock.sleep(self.config.poll);
            if self.hot.touch(&[tag])?[0] != Touched::Wait {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn run(&self, tag: &[u8]) -> Result<Outcome, TieringError> {
        let mut load = Load::<Chunk>::default();
        loop {
            match &load {
                Load::ReadBase => load.base_read(self.cold.generations(&[tag])?[0]),
                Load::Begin { .. } => {
                    let token = self.tokens.draw();
                    load.begun(token, self.hot.begin(tag, token)?);
                }
                Load::Claim { base, .. } => {
                    let claimed = self.cold.claim(tag, *base)?;
                    load.claimed(chunks_of(claimed, self.config.chunk_bytes));
                }
                Load::Install { token, chunks } => {
                    load.installed(self.hot.install(tag, *token, &chunks[0])?);
                }
                Load::Over(outcome) => return Ok(*outcome),
            }
        }
    }

    fn loads(&self) -> MutexGuard<'_, LoadCoalescer<mpsc::Sender<LoadOutcome>>> {
        self.loads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct LoadGuard<'a> {
    loader: &'a Loader,
    tag: &'a [u8],
}

impl Drop for LoadGuard<'_> {
    fn drop(&mut self) {
        // After a load that finished no waiter is left. After a panic this drops the senders, which wakes the waiters.
        self.loader.loads().finish(self.tag);
    }
}

/// Cuts what a claim read into chunks; `None` when the tag has moved.
pub fn chunks_of(claimed: Claimed, chunk_bytes: usize) -> Option<VecDeque<Chunk>> {
    let loaded = match claimed {
        Claimed::Moved => return None,
        Claimed::NoRow => Loaded {
            generation: 1,
            saved: Version::default(),
            ..Loaded::default()
        },
        Claimed::Loaded(loaded) => loaded,
    };
    let part = Part {
        generation: loaded.generation,
        saved: loaded.saved,
        is_last: false,
    };
    let mut chunks = VecDeque::new();
    // Names that must go, go first: they are small and wait for nothing.
    let mut chunk = Chunk {
        part,
        rows: Vec::new(),
        tombstones: loaded.tombstones,
    };
    let mut bytes = 0;
    for row in loaded.rows {
        if bytes >= chunk_bytes {
            chunks.push_back(std::mem::replace(
                &mut chunk,
                Chunk {
                    part,
                    rows: Vec::new(),
                    tombstones: Vec::new(),
                },
            ));
            bytes = 0;
        }
        bytes += size_of_row(&row);
        chunk.rows.push(row);
    }
    chunk.part.is_last = true;
    chunks.push_back(chunk);
    Some(chunks)
}

fn size_of_row(row: &Row) -> usize {
    row.key.len() + row.value.payload.len()
}
