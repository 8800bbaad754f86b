//! Sessions of signed-in users. In memory only: after a restart every user signs in again.

use std::collections::HashMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tokio::time::Instant;

use crate::request::Rights;

/// A session ends after this idle time.
const IDLE_MAX: Duration = Duration::from_secs(12 * 3600);
/// Every session ends after this.
pub(crate) const AGE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// Most sessions; the longest idle one is dropped.
const SESSIONS_MAX: usize = 1_000;

/// Sessions by the hash of their id, so that a memory dump reveals no usable id.
pub(crate) struct Sessions {
    open: Mutex<HashMap<[u8; 32], Session>>,
    /// Forms carry a digest of this and the session's id.
    secret: [u8; 32],
}

#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) token: String,
    pub(crate) rights: Rights,
    began: Instant,
    used: Instant,
}

/// What a browser keeps in its cookie.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SessionId([u8; 32]);

impl SessionId {
    pub(crate) fn parse(text: &str) -> Option<SessionId> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        bytes.try_into().ok().map(SessionId)
    }

    pub(crate) fn text(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }

    fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.0).into()
    }
}

impl Sessions {
    pub(crate) fn new() -> Sessions {
        Sessions {
            open: Mutex::default(),
            secret: rand::random(),
        }
    }

    /// Opens a session for a token that the API knows.
    pub(crate) fn open(&self, token: String, rights: Rights) -> SessionId {
        let id = SessionId(rand::random());
        let now = Instant::now();
        let session = Session {
            token,
            rights,
            began: now,
            used: now,
        };
        let mut open = self.open.lock();
        open.retain(|_, session| session.is_alive());
        if open.len() >= SESSIONS_MAX {
            let stalest = open
                .iter()
                .min_by_key(|(_, session)| session.used)
                .map(|(hash, _)| *hash);
            stalest.map(|hash| open.remove(&hash));
        }
        open.insert(id.hash(), session);
        id
    }

    /// Finds a session and notes that it was used.
    pub(crate) fn find(&self, id: &SessionId) -> Option<Session> {
        let mut open = self.open.lock();
        let session = open.get_mut(&id.hash())?;
        if !session.is_alive() {
            open.remove(&id.hash());
            return None;
        }
        session.used = Instant::now();
        Some(session.clone())
    }

    pub(crate) fn close(&self, id: &SessionId) {
        self.open.lock().remove(&id.hash());
    }

    /// Returns the anti-forgery token for forms of a session. Without a session there is one shared token: a
    /// foreign page cannot read it, which suffices.
    pub(crate) fn form_word(&self, id: Option<&SessionId>) -> String {
        let mut digest = Sha256::new();
        digest.update(self.secret);
        digest.update(id.map_or([0; 32], SessionId::hash));
        URL_SAFE_NO_PAD.encode(digest.finalize())
    }

    pub(crate) fn is_form_word(&self, id: Option<&SessionId>, sent: &str) -> bool {
        self.form_word(id).as_bytes().ct_eq(sent.as_bytes()).into()
    }
}

impl Session {
    fn is_alive(&self) -> bool {
        self.used.elapsed() < IDLE_MAX && self.began.elapsed() < AGE_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_session_ends_when_nobody_uses_it() {
        let sessions = Sessions::new();
        let id = sessions.open("t".into(), Rights::default());
        let again = SessionId::parse(&id.text()).unwrap();
        tokio::time::advance(IDLE_MAX - Duration::from_secs(1)).await;
        assert_eq!(sessions.find(&again).unwrap().token, "t");
        tokio::time::advance(IDLE_MAX).await;
        assert!(sessions.find(&again).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_ends_of_age_even_when_it_is_used() {
        let sessions = Sessions::new();
        let id = sessions.open("t".into(), Rights::default());
        for _ in 0..14 {
            tokio::time::advance(IDLE_MAX - Duration::from_secs(60)).await;
            sessions.find(&id);
        }
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert!(sessions.find(&id).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn there_is_a_bound_and_the_stalest_makes_room() {
        let sessions = Sessions::new();
        let first = sessions.open("first".into(), Rights::default());
        tokio::time::advance(Duration::from_secs(1)).await;
        for _ in 0..SESSIONS_MAX {
            sessions.open("more".into(), Rights::default());
        }
        assert!(sessions.find(&first).is_none());
        assert_eq!(sessions.open.lock().len(), SESSIONS_MAX);
    }

    #[tokio::test]
    async fn a_form_of_one_session_is_none_of_another() {
        let sessions = Sessions::new();
        let (one, other) = (SessionId([1; 32]), SessionId([2; 32]));
        let word = sessions.form_word(Some(&one));
        assert!(sessions.is_form_word(Some(&one), &word));
        assert!(!sessions.is_form_word(Some(&other), &word));
        assert!(!sessions.is_form_word(None, &word));
        assert!(!Sessions::new().is_form_word(Some(&one), &word));
    }
}
