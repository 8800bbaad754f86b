use std::sync::atomic::{AtomicUsize, Ordering};

use crate::Redis;

/// A Redis primary with replicas, without anything that fails over by itself.
#[derive(Debug)]
pub struct RedisReplicas {
    nodes: Vec<Redis>,
    primary: AtomicUsize,
}

impl RedisReplicas {
    /// Starts a primary (node 0) and `replicas` replicas, all in step.
    #[track_caller]
    pub fn start(replicas: usize) -> RedisReplicas {
        let nodes: Vec<Redis> = (0..=replicas).map(|_| Redis::start()).collect();
        for replica in &nodes[1..] {
            replica.follow(&nodes[0]);
        }
        RedisReplicas {
            nodes,
            primary: AtomicUsize::new(0),
        }
    }

    pub fn nodes(&self) -> &[Redis] {
        &self.nodes
    }

    /// The node that was made primary last.
    pub fn primary(&self) -> &Redis {
        &self.nodes[self.primary.load(Ordering::Relaxed)]
    }

    /// Every node but the primary.
    pub fn replicas(&self) -> Vec<&Redis> {
        let primary = self.primary().port();
        self.nodes.iter().filter(|node| node.port() != primary).collect()
    }

    /// Makes the node at `index` the primary and lets every other running node
    /// follow it, the old primary included.
    #[track_caller]
    pub fn promote(&self, index: usize) {
        self.nodes[index].promote();
        self.primary.store(index, Ordering::Relaxed);
        for replica in self.replicas() {
            if replica.is_running() {
                replica.follow(&self.nodes[index]);
            }
        }
    }
}
