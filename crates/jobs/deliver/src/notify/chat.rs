//! Notifications in a chat, through an incoming webhook like Slack's.

use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Uri};
use serde_json::json;

use super::config::ChatConfig;
use super::message_text::Message;
use crate::guard::{Allow, Client, Limits};

pub(super) struct Chat {
    client: Client,
    url: String,
}

impl Chat {
    pub(super) fn open(config: &ChatConfig) -> Result<Chat, String> {
        let uri: Uri = config.url.parse().map_err(|_| "needs a URL".to_owned())?;
        let host = uri.host().ok_or("needs a URL with a host")?;
        // The operator chose it, so it may be on an internal network.
        let allow = Allow::parse([host.trim_start_matches('[').trim_end_matches(']')]);
        let limits = Limits {
            total: Duration::from_secs(15),
            ..Limits::default()
        };
        Ok(Chat {
            client: Client::new(
                allow.map_err(|error| error.to_string())?,
                limits,
                config.ca.as_deref(),
            )?,
            url: config.url.clone(),
        })
    }

    pub(super) async fn send(&self, message: &Message) -> Result<(), String> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let body = json!({ "text": escape(&message.text) }).to_string();
        let reply = self.client.post(&self.url, headers, body.into()).await;
        let reply = reply.map_err(|error| error.to_string())?;
        match reply.status {
            200..=299 => Ok(()),
            status => {
                let said = String::from_utf8_lossy(&reply.body).into_owned();
                Err(format!("it answered {status}: {}", said.trim()))
            }
        }
    }
}

/// Escapes a text, so that a job's error can neither mention a channel's members nor disguise a link.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_cannot_call_the_channel() {
        assert_eq!(escape("<!channel> a & b"), "&lt;!channel&gt; a &amp; b");
    }
}
