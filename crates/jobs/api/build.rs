//! Generates Rust code from the proto file, without protoc.

use std::error::Error;
use std::path::Path;

const FILE: &str = "nagaya/jobs/v1/jobs.proto";

fn main() -> Result<(), Box<dyn Error>> {
    let folder = Path::new("../../../proto");
    let descriptors = protox::compile([FILE], [folder])?;
    tonic_prost_build::configure()
        .build_transport(false)
        // Payloads are slices of the received message.
        .bytes(".")
        .compile_fds(descriptors)?;
    // Cargo reads its instructions from the standard output of a build script.
    #[allow(
        clippy::print_stdout,
        reason = "cargo reads its instructions from the standard output of a build script"
    )]
    {
        println!("cargo::rerun-if-changed={}", folder.join(FILE).display());
    }
    Ok(())
}
