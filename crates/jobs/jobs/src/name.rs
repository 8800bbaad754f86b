//! Names that people choose: of tenants, of queues, of workers and of everything that has a key.

use std::fmt;
use std::sync::Arc;

use crate::error::Error;

/// The longest name of a tenant or a queue, in bytes.
pub const NAME_BYTES_MAX: usize = 128;

/// Checks a name that is used in paths, tables and metrics.
fn check(field: &'static str, text: &str) -> Result<(), Error> {
    if text.is_empty() || text.len() > NAME_BYTES_MAX {
        return Err(Error::invalid(field, "must have 1 to 128 characters"));
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b':');
    if !text.bytes().all(allowed) {
        return Err(Error::invalid(
            field,
            "may hold only letters, digits, '.', '_', '-' and ':'",
        ));
    }
    if text.bytes().all(|byte| byte == b'.') {
        return Err(Error::invalid(field, "must not be only dots"));
    }
    Ok(())
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $field:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(Arc<str>);

        impl $type {
            /// Checks a name from outside.
            pub fn new(text: &str) -> Result<$type, Error> {
                check($field, text)?;
                Ok($type(text.into()))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(out)
            }
        }
    };
}

name! {
    /// An application that submits work. Its jobs are invisible to other tenants.
    TenantId, "tenant"
}

name! {
    /// Where jobs of one kind of work wait. Several tenants may use one queue and get fair shares of it.
    QueueName, "queue"
}

impl TenantId {
    /// The tenant of a server without token authentication.
    pub fn default_tenant() -> TenantId {
        TenantId("default".into())
    }
}

impl QueueName {
    /// Returns whether the queue is internal: such names begin with an underscore and clients may not enqueue
    /// there.
    pub fn is_reserved(&self) -> bool {
        self.0.starts_with('_')
    }

    /// The queue of administrators' notifications. A job of it that fails permanently causes no further
    /// notification.
    pub fn notifications() -> QueueName {
        QueueName("_notify".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_into_a_path() {
        for good in ["mail", "Mail.high-1", "a:b_c", &"x".repeat(128)] {
            assert_eq!(QueueName::new(good).unwrap().as_str(), good);
        }
        for bad in ["", ".", "..", "a b", "a/b", "é", "a\n", &"x".repeat(129)] {
            assert!(QueueName::new(bad).is_err(), "{bad:?}");
            assert!(TenantId::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_house_has_queues_of_its_own() {
        assert!(QueueName::notifications().is_reserved());
        assert!(!QueueName::new("mail").unwrap().is_reserved());
    }
}
