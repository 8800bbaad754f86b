//! `fanout` in the binary: its commands and its component of `nagaya up`.
//!
//! `nagaya-fanout` handles requests; this module chooses the store and the listener, and reloads the endpoints.

mod service;

pub(crate) mod api;
mod tools;

use anyhow::{bail, ensure};
use nagaya_fanout::{FanoutConfig, RequestIdKind, StoreKind};

pub(crate) use service::{FanoutService, Reload, reload_from_settings};
pub(crate) use tools::{FanoutCommand, run};

use crate::app::settings::Settings;
use crate::http::{check_tls, check_token};

/// Checks the section, and what it says together with others.
pub(crate) fn check(settings: &Settings) -> anyhow::Result<()> {
    let fanout = &settings.fanout;
    fanout.check()?;
    if !fanout.enabled {
        return Ok(());
    }
    check_credentials(fanout)?;
    let listen = fanout.listen;
    if !listen.is_loopback() && fanout.token.is_none() && !settings.house.insecure {
        bail!(
            "`fanout.listen` is {listen}, which other machines can reach, and `fanout.token` is not set; set it, \
             listen on 127.0.0.1, or pass --insecure"
        );
    }
    ensure!(
        fanout.request_id == RequestIdKind::Uuid || settings.ids.enabled,
        "`fanout.request_id` is \"minted\", but `ids.enabled` is false"
    );
    ensure!(
        fanout.endpoints.0.is_empty()
            || fanout.store != StoreKind::Embedded
            || !settings.room.require_hash_tag,
        "`fanout.store` is \"embedded\", but `room.require_hash_tag` refuses its keys, which have none; choose \
         another store"
    );
    Ok(())
}

/// Checks the token and the certificate of the listener.
fn check_credentials(fanout: &FanoutConfig) -> anyhow::Result<()> {
    check_token("fanout.token", fanout.token.as_ref())?;
    check_tls("fanout", &fanout.tls_cert, &fanout.tls_key, &fanout.tls_client_ca)
}
