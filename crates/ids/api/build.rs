//! Turns the proto files into Rust, without protoc.

use std::error::Error;
use std::path::Path;

const FILES: [&str; 2] = ["nagaya/ids/v1/ids.proto", "katsubushi/katsubushi.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    let folder = Path::new("../../../proto");
    let descriptors = protox::compile(FILES, [folder])?;
    tonic_prost_build::configure()
        .build_transport(false)
        .compile_fds(descriptors)?;
    for file in FILES {
        // Cargo reads its instructions from the standard output of a build script.
        #[allow(
            clippy::print_stdout,
            reason = "cargo reads its instructions from the standard output of a build script"
        )]
        {
            println!("cargo::rerun-if-changed={}", folder.join(file).display());
        }
    }
    Ok(())
}
