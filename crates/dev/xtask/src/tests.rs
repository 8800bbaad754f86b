mod crates;
mod functions;
mod imports;
mod manifests;
mod names;
mod sql;
