//! One service in a line: its state and its address.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use crate::failure::Failure;
use crate::html::service_badge;
use crate::request::PageRequest;

/// The part of `/v1/house` that is about one service.
#[derive(Debug, Deserialize)]
pub(super) struct Service {
    state: String,
    detail: Option<String>,
    pub(super) address: Option<String>,
    /// Its own figures, which differ from service to service.
    #[serde(flatten)]
    figures: BTreeMap<String, Value>,
}

#[derive(Debug, Deserialize)]
struct TestConsole {
    services: BTreeMap<String, Option<Service>>,
}

impl Service {
    /// Returns `None` where the service is off, or the server runs only some of the services.
    pub(super) async fn read(request: &PageRequest, name: &str) -> Result<Option<Service>, Failure> {
        let console = request.get_if_any::<TestConsole>("/v1/house").await?;
        Ok(console.and_then(|mut console| console.services.remove(name).flatten()))
    }

    pub(super) fn number(&self, name: &str) -> Option<f64> {
        self.figures.get(name)?.as_f64()
    }

    pub(super) fn whole(&self, name: &str) -> Option<u64> {
        self.figures.get(name)?.as_u64()
    }

    /// The line under a page's title, with more words at its end.
    pub(super) fn head(&self, more: Markup) -> Markup {
        html! {
            p.lead {
                (service_badge(&self.state))
                @if let Some(address) = &self.address { code { (address) } }
                (more)
                @if let Some(detail) = self.detail.as_deref().filter(|detail| !detail.is_empty()) {
                    span { (detail) }
                }
            }
        }
    }
}
