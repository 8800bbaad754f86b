mod checks;
mod mutations;
mod properties;
