//! The job store on PostgreSQL.
