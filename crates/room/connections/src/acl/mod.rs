//! Users and what they may do.
//!
//! An [`Account`] is a user's name and the [`rules::Rules`] in force for it.
//! Connections hold on to their account and to the rules they saw last, and
//! look again when the version of [`Acl`] has moved since.
//!
//! Suggested reading order: [`selector`] and [`rules`] say what rights are,
//! [`check`] applies them to a request, [`log`] keeps what was refused.

pub mod check;
pub mod describe;
pub mod file;
pub mod log;
pub mod rules;
pub mod selector;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nagaya_command_spec::table::CommandTable;
use parking_lot::{Mutex, RwLock};

use crate::acl::log::Log;
use crate::acl::rules::Rules;
use crate::acl::selector::RuleError;

/// The user that every connection starts as. It cannot be removed.
pub const DEFAULT_USER: &[u8] = b"default";

/// One user.
pub struct Account {
    pub name: Box<[u8]>,
    rules: RwLock<Arc<Rules>>,
    pub removed: AtomicBool,
}

impl Account {
    fn new(name: &[u8], rules: Rules) -> Arc<Account> {
        Arc::new(Account {
            name: name.into(),
            rules: RwLock::new(Arc::new(rules)),
            removed: AtomicBool::new(false),
        })
    }

    /// Returns the rules in force.
    pub fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read())
    }

    /// Returns whether this is the user `default`.
    pub fn is_default(&self) -> bool {
        *self.name == *DEFAULT_USER
    }
}

/// Why ACL SETUSER failed.
#[derive(Debug, thiserror::Error)]
pub enum SetUserError {
    #[error("Unmatched parenthesis in acl selector starting at '{0}'.")]
    Unmatched(String),
    #[error("Error in ACL SETUSER modifier '{rule}': {error}")]
    Rule { rule: String, error: RuleError },
}

/// All users, and what was refused to them.
pub struct Acl {
    table: &'static CommandTable,
    accounts: RwLock<BTreeMap<Vec<u8>, Arc<Account>>>,
    default: Arc<Account>,
    /// Rises with every change, after the change is in place. Never zero.
    version: AtomicU64,
    /// Held while the users' file is written, so that the newest state is what stays in it.
    saving: Mutex<()>,
    pub log: Log,
}

impl Acl {
    /// Makes the user `default`, with a password unless that is empty.
    pub fn new(table: &'static CommandTable, password: &[u8]) -> Acl {
        let mut rules = Rules::everything(table);
        rules.set_only_password(password);
        let default = Account::new(DEFAULT_USER, rules);
        Acl {
            table,
            accounts: RwLock::new(BTreeMap::from([(DEFAULT_USER.to_vec(), Arc::clone(&default))])),
            default,
            version: AtomicU64::new(1),
            saving: Mutex::default(),
            log: Log::default(),
        }
    }

    /// Returns the number of the users' present state.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    fn changed(&self) {
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Finds a user by name.
    pub fn account(&self, name: &[u8]) -> Option<Arc<Account>> {
        self.accounts.read().get(name).cloned()
    }

    /// Lists all users by name.
    pub fn accounts(&self) -> Vec<Arc<Account>> {
        self.accounts.read().values().cloned().collect()
    }

    /// Returns the user `default`.
    pub fn default_account(&self) -> &Arc<Account> {
        &self.default
    }

    /// Gives `default` one password, or none when it is empty.
    pub fn set_default_password(&self, password: &[u8]) {
        let _one_at_a_time = self.accounts.write();
        let mut rules = Rules::clone(&self.default.rules());
        rules.set_only_password(password);
        *self.default.rules.write() = Arc::new(rules);
        self.changed();
    }

    /// Makes or changes a user; all rules count or none. Returns the account and the rules it had.
    pub fn set_user(
        &self,
        name: &[u8],
        rules: &[&[u8]],
        all_channels: bool,
    ) -> Result<(Arc<Account>, Option<Arc<Rules>>), SetUserError> {
        let shown = |rule: &[u8]| String::from_utf8_lossy(rule).into_owned();
        let joined = rules::join_selectors(rules)
            .map_err(|unmatched| SetUserError::Unmatched(shown(rules[unmatched.0])))?;
        let mut accounts = self.accounts.write();
        let account = accounts.get(name).cloned();
        let before = account.as_ref().map(|account| account.rules());
        let mut changed = before
            .as_deref()
            .map_or_else(|| Rules::new(self.table, all_channels), Rules::clone);
        for rule in &joined {
            changed
                .apply(self.table, rule, all_channels)
                .map_err(|error| SetUserError::Rule {
                    rule: shown(rule),
                    error,
                })?;
        }
        let account = match account {
            Some(account) => {
                *account.rules.write() = Arc::new(changed);
                account
            }
            None => {
                let account = Account::new(name, changed);
                accounts.insert(name.to_vec(), Arc::clone(&account));
                account
            }
        };
        self.changed();
        Ok((account, before))
    }

    /// Removes a user; its connections are for the caller to end.
    pub fn remove_user(&self, name: &[u8]) -> Option<Arc<Account>> {
        let account = self.accounts.write().remove(name)?;
        account.removed.store(true, Ordering::Release);
        self.changed();
        Some(account)
    }

    /// Puts a new set of users in place of all. `default` and users whose rules stay the same keep their
    /// accounts and so their connections; those of every other user are for the caller to end.
    fn replace_users(&self, mut users: BTreeMap<Vec<u8>, Rules>) {
        let mut accounts = self.accounts.write();
        if let Some(rules) = users.remove(DEFAULT_USER) {
            *self.default.rules.write() = Arc::new(rules);
        }
        let mut fresh = BTreeMap::from([(DEFAULT_USER.to_vec(), Arc::clone(&self.default))]);
        for (name, rules) in users {
            let kept = accounts.get(&name).filter(|account| *account.rules() == rules);
            let account = kept.map_or_else(|| Account::new(&name, rules), Arc::clone);
            fresh.insert(name, account);
        }
        let old = std::mem::replace(&mut *accounts, fresh);
        for (name, account) in old {
            let stays = accounts
                .get(&name)
                .is_some_and(|fresh| Arc::ptr_eq(fresh, &account));
            if !stays {
                account.removed.store(true, Ordering::Release);
            }
        }
        self.changed();
    }
}
