//! Poller, inbox, slab, listeners and transport of the event loops.
