//! Everything that one user is: state, passwords, rights.
//!
//! [`Rules`] never change once connections see them; a change makes a copy and
//! puts it in their place.

use nagaya_command_spec::table::CommandTable;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::acl::selector::{RuleError, Selector};

/// A password as it is kept: the hexadecimal digits of its SHA-256.
pub type PasswordHash = [u8; 64];

/// The rules of one user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    pub enabled: bool,
    /// Any password will do.
    pub nopass: bool,
    /// Whether RESTORE checks this user's payloads, where a rule has said so.
    pub sanitize: Option<bool>,
    pub passwords: Vec<PasswordHash>,
    /// The root selector, then those added in parentheses.
    pub selectors: Vec<Selector>,
}

impl Rules {
    /// Makes the rules of a new user, who may not even log in.
    pub fn new(table: &CommandTable, all_channels: bool) -> Rules {
        Rules {
            enabled: false,
            nopass: false,
            sanitize: None,
            passwords: Vec::new(),
            selectors: vec![Selector::new(table, all_channels)],
        }
    }

    /// Makes the rules that the user `default` starts with: everything, without a password.
    pub fn everything(table: &CommandTable) -> Rules {
        let mut root = Selector::new(table, true);
        root.permit_all(table, true);
        root.all_keys = true;
        Rules {
            enabled: true,
            nopass: true,
            selectors: vec![root],
            ..Rules::new(table, true)
        }
    }

    /// Returns the rights outside any parentheses.
    pub fn root(&self) -> &Selector {
        &self.selectors[0]
    }

    /// Tells whether no command needs a closer look.
    pub fn allow_everything(&self) -> bool {
        self.selectors.iter().any(Selector::allows_everything)
    }

    /// Tells whether a connection of the user `default` may go on without AUTH.
    pub fn admit_strangers(&self) -> bool {
        self.nopass && self.enabled
    }

    /// Tells whether somebody with this password may log in. Takes the same time for every wrong one.
    pub fn accept(&self, password: &[u8]) -> bool {
        if !self.enabled || self.nopass {
            return self.enabled;
        }
        let given = hash(password);
        let known = self.passwords.iter();
        let matched = known.fold(0, |matched, hash| matched | hash.ct_eq(&given).unwrap_u8());
        matched == 1
    }

    /// Sets the one password of `requirepass`, or none.
    pub fn set_only_password(&mut self, password: &[u8]) {
        self.passwords.clear();
        self.nopass = password.is_empty();
        if !self.nopass {
            self.passwords.push(hash(password));
        }
    }

    /// Changes the rules by one argument of ACL SETUSER. `all_channels` is what new selectors start with.
    pub fn apply(&mut self, table: &CommandTable, op: &[u8], all_channels: bool) -> Result<(), RuleError> {
        let is = |word: &str| op.eq_ignore_ascii_case(word.as_bytes());
        match op {
            [] => {}
            _ if is("on") => self.enabled = true,
            _ if is("off") => self.enabled = false,
            _ if is("skip-sanitize-payload") => self.sanitize = Some(false),
            _ if is("sanitize-payload") => self.sanitize = Some(true),
            _ if is("nopass") => {
                self.nopass = true;
                self.passwords.clear();
            }
            _ if is("resetpass") => {
                self.nopass = false;
                self.passwords.clear();
            }
            _ if is("clearselectors") => self.selectors.truncate(1),
            _ if is("reset") => {
                *self = Rules {
                    sanitize: Some(true),
                    ..Rules::new(table, all_channels)
                };
            }
            [b'>', password @ ..] => self.add_password(hash(password)),
            [b'#', digits @ ..] => self.add_password(parse_hash(digits)?),
            [b'<', password @ ..] => self.remove_password(hash(password))?,
            [b'!', digits @ ..] => self.remove_password(parse_hash(digits)?)?,
            [b'(', .., b')'] => self.selectors.push(Selector::parse(table, op, all_channels)?),
            _ => self.selectors[0].apply(table, op)?,
        }
        Ok(())
    }

    fn add_password(&mut self, hash: PasswordHash) {
        if !self.passwords.contains(&hash) {
            self.passwords.push(hash);
        }
        self.nopass = false;
    }

    fn remove_password(&mut self, hash: PasswordHash) -> Result<(), RuleError> {
        let at = self.passwords.iter().position(|known| *known == hash);
        self.passwords.remove(at.ok_or(RuleError::NoSuchPassword)?);
        Ok(())
    }
}

/// A parenthesis was opened by the rule at this place and never closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unmatched(pub usize);

/// Joins selectors that were given as several arguments into one rule each.
pub fn join_selectors(rules: &[&[u8]]) -> Result<Vec<Vec<u8>>, Unmatched> {
    let mut joined = Vec::new();
    let mut open: Option<(usize, Vec<u8>)> = None;
    for (at, rule) in rules.iter().enumerate() {
        if rule.first() == Some(&b'(') && rule.last() != Some(&b')') {
            open = Some((at, rule.to_vec()));
        } else if let Some((_, selector)) = &mut open {
            selector.push(b' ');
            selector.extend_from_slice(rule);
            if rule.last() == Some(&b')') {
                joined.push(std::mem::take(selector));
                open = None;
            }
        } else {
            joined.push(rule.to_vec());
        }
    }
    match open {
        Some((at, _)) => Err(Unmatched(at)),
        None => Ok(joined),
    }
}

fn hash(password: &[u8]) -> PasswordHash {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut digits = [0; 64];
    for (pair, byte) in digits.chunks_exact_mut(2).zip(Sha256::digest(password)) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    digits
}

fn parse_hash(digits: &[u8]) -> Result<PasswordHash, RuleError> {
    let digits: PasswordHash = digits.try_into().map_err(|_| RuleError::BadHash)?;
    let valid = digits
        .iter()
        .all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    if valid {
        Ok(digits)
    } else {
        Err(RuleError::BadHash)
    }
}
