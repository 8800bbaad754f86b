//! Tests of the layers below through the commands.

mod acl;
mod acl_check;
mod acl_describe;
mod acl_file;
mod acl_kept;
mod acl_password;
mod acl_rules;
mod acl_selector;
mod acl_tags;
mod config;
mod databases;
mod effects;
mod eviction;
mod rights;
mod tracking;
