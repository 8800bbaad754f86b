use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: nagaya_engine::CountingAllocator = nagaya_engine::CountingAllocator;

fn main() -> ExitCode {
    nagaya::run()
}
