//! Named SQL blocks, typed rows and checked migrations.
