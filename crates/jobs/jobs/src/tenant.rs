//! Applications and their API tokens.

use crate::name::TenantId;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    pub id: TenantId,
    /// Its share of a queue that other tenants use too: twice the weight, twice the jobs.
    pub weight: u32,
    pub created_at_ms: i64,
}

/// What a token allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scopes {
    pub enqueue: bool,
    pub work: bool,
    pub read: bool,
    /// Only the metrics of the server.
    pub metrics: bool,
    pub admin: bool,
}

impl Scopes {
    /// Returns the bits that stores keep. Never changed.
    pub fn bits(self) -> i16 {
        i16::from(self.enqueue)
            | i16::from(self.work) << 1
            | i16::from(self.read) << 2
            | i16::from(self.admin) << 3
            | i16::from(self.metrics) << 4
    }

    pub fn of_bits(bits: i16) -> Scopes {
        Scopes {
            enqueue: bits & 1 != 0,
            work: bits & 2 != 0,
            read: bits & 4 != 0,
            admin: bits & 8 != 0,
            metrics: bits & 16 != 0,
        }
    }
}

/// An API token. The store keeps only the hash, so a token cannot be read from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiToken {
    /// The display name, unique within the tenant.
    pub name: String,
    pub tenant: TenantId,
    /// SHA-256 of the token.
    pub hash: [u8; 32],
    pub scopes: Scopes,
    /// Only these queues; all when empty.
    pub queues: Vec<String>,
    pub created_at_ms: i64,
    pub expires_at_ms: Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_survive_as_bits() {
        for bits in 0..16 {
            assert_eq!(Scopes::of_bits(bits).bits(), bits);
        }
    }
}
