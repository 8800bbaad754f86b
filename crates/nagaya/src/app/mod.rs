//! The process: settings, start, supervision, readiness and shutdown.

pub mod settings;

pub(crate) mod up;

pub mod readiness;
pub mod service;
pub(crate) mod supervisor;

pub(crate) mod data_dir;
pub(crate) mod ground_watch;

pub(crate) mod access;
pub(crate) mod banner;
pub(crate) mod service_manager;
pub(crate) mod terminal;
