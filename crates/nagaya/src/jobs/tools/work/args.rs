//! What `nagaya jobs work` can be told.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use nagaya_config::{ByteSize, with_unit};

use crate::jobs::tools::connect::ConnectArgs;

#[derive(Args)]
pub(crate) struct WorkArgs {
    /// Take jobs of this queue
    #[arg(long, short, value_name = "NAME")]
    pub(super) queue: String,
    /// Commands that run at a time
    #[arg(long, short, value_name = "N", default_value_t = 1)]
    pub(super) concurrency: usize,
    /// Who works, for people to see [default: HOST:PID]
    #[arg(long, value_name = "NAME")]
    pub(super) name: Option<String>,
    /// Exit codes after which no retry will help
    #[arg(long, value_name = "CODE,..", value_delimiter = ',', default_value = "65")]
    pub(super) permanent: Vec<i32>,
    /// Largest result; a command that writes more fails for good
    #[arg(long, value_name = "SIZE", default_value = "1mb", value_parser = with_unit::<ByteSize>)]
    pub(super) result_max: ByteSize,
    /// How long a command may take to end before it is killed
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = with_unit::<Duration>)]
    pub(super) grace: Duration,
    #[command(flatten)]
    pub(super) connect: ConnectArgs,
    /// The command and its arguments, after `--`
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub(super) command: Vec<OsString>,
}
