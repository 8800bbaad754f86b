//! The web console: pages for people, rendered on the server from the public API.
//!
//! It is a client of the API and of nothing else: every value comes from a request that any client with the
//! same token could send, and every button sends one. So it can do nothing that the API does not allow, and a
//! token's scopes hold here as everywhere.
//!
//! A request passes [`session_guard`] first, which finds its session, refuses cross-site requests, and puts
//! headers on what comes back; then the handler of a page in [`pages`], which asks the API through a
//! [`request::PageRequest`] and returns markup.

mod api;
mod assets;
mod chart;
mod config;
mod failure;
mod form;
mod format;
mod history;
mod html;
mod layout;
mod limiter;
mod pages;
mod request;
mod session;
mod session_guard;
mod table;
#[cfg(test)]
mod testing;

pub use api::{Answer, Api, InProcess, Request};
pub use config::ConsoleConfig;
pub use pages::PATHS;
pub use request::Console;
