use std::process::ExitCode;

fn main() -> ExitCode {
    nagaya::run()
}
