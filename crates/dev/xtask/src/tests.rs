mod crates;
mod documents;
mod functions;
mod imports;
mod manifests;
mod names;
mod sql;
