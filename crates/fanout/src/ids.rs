//! Request ids.

use std::sync::Arc;

use nagaya_ids::mint::{Mint, MintError};
use uuid::Uuid;

/// Where ids come from.
#[derive(Clone, Debug)]
pub enum IdSource {
    /// Random, as in serinin.
    Uuid,
    /// Rising with time, derived from the node number that this process holds.
    Minted(Arc<Mint>),
}

impl IdSource {
    pub(crate) async fn next(&self) -> Result<Arc<str>, MintError> {
        match self {
            IdSource::Uuid => {
                let mut text = [0; 36];
                Ok((&*Uuid::new_v4().hyphenated().encode_lower(&mut text)).into())
            }
            IdSource::Minted(mint) => {
                let mut ids = Vec::with_capacity(1);
                mint.fill_async(1, &mut ids).await?;
                Ok(ids[0].to_string().into())
            }
        }
    }
}

/// Returns whether a path segment can be a request id: a UUID or a number.
pub(crate) fn is_id(text: &str) -> bool {
    let is_number = (1..=20).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number || (text.len() == 36 && Uuid::try_parse(text).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_told_from_other_words() {
        for good in [
            "0b0f8b1e-6a3c-4f3b-9a57-0d6a2f7c1e11",
            "1",
            "18446744073709551615",
        ] {
            assert!(is_id(good), "{good}");
        }
        for bad in [
            "",
            "new",
            "0b0f8b1e6a3c4f3b9a570d6a2f7c1e11",
            "-1",
            "123456789012345678901",
        ] {
            assert!(!is_id(bad), "{bad}");
        }
    }

    #[tokio::test]
    async fn uuids_are_of_version_4() {
        let id = IdSource::Uuid.next().await.unwrap();
        assert_eq!(Uuid::try_parse(&id).unwrap().get_version_num(), 4);
    }
}
