//! The users' file: read at the start, by ACL LOAD; written by ACL SAVE, or after every change.

use nagaya_command_spec::error::CommandError;

use crate::closing::{close_clients_of_the_removed, close_listeners_without_rights};
use crate::config::Config;
use crate::server::Server;
use crate::session::Session;

impl Server {
    /// Reads the users' file of the settings, if there is one. A file that is written by itself need not be
    /// there yet; one that somebody named must be.
    pub fn load_users_at_start(&self) -> Result<(), String> {
        let config = self.config();
        let Some(path) = &config.acl_file else {
            return Ok(());
        };
        if config.acl_saves_itself && !path.exists() {
            return Ok(());
        }
        let (all_channels, password) = (config.acl_pubsub_default_all, config.requirepass.as_bytes());
        self.acl.load(path, all_channels, password)
    }

    /// Reads the users' file again and ends the connections of users that are gone or changed (ACL LOAD).
    pub fn reload_users(&self, asker: &mut Session) -> Result<(), CommandError> {
        let config = self.config();
        let path = config.acl_file.as_ref().ok_or_else(no_file)?;
        let default = self.acl.default_account();
        let before = default.rules();
        let (all_channels, password) = (config.acl_pubsub_default_all, config.requirepass.as_bytes());
        self.acl
            .load(path, all_channels, password)
            .map_err(CommandError::err)?;
        close_clients_of_the_removed(self, asker);
        close_listeners_without_rights(self, default, &before);
        Ok(())
    }

    /// Writes the users' file (ACL SAVE).
    pub fn save_users(&self) -> Result<(), CommandError> {
        let config = self.config();
        if config.acl_file.is_none() {
            return Err(no_file());
        }
        write(self, &config)
            .map_err(|why| CommandError::err(format!("There was an error trying to save the ACLs: {why}")))
    }

    /// Writes the users' file after a change, where that is done without being asked for. The change is in
    /// force whether or not this succeeds: a user who was just removed must not stay because a disk is full.
    pub fn keep_users(&self) -> Result<(), CommandError> {
        let config = self.config();
        if !config.acl_saves_itself {
            return Ok(());
        }
        write(self, &config).map_err(|why| {
            CommandError::err(format!(
                "the change is in force but could not be saved, and ends with this process: {why}; try ACL \
                 SAVE once that is mended"
            ))
        })
    }

    /// Returns whether clients may use the server as the user `default` without a password.
    pub fn admits_strangers(&self) -> bool {
        self.acl.default_account().rules().admit_strangers()
    }
}

fn write(server: &Server, config: &Config) -> Result<(), String> {
    let Some(path) = &config.acl_file else {
        return Ok(());
    };
    server
        .acl
        .save(path)
        .map_err(|error| format!("{}: {error}", path.display()))
}

fn no_file() -> CommandError {
    CommandError::err(
        "This Redis instance is not configured to use an ACL file. You may want to specify users via the \
         ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file \
         set) in order to store users in the Redis configuration.",
    )
}
