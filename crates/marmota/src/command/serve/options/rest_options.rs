//! The options of `serve` for REST: pages, batches, NDJSON and compression.

use clap::Args;
use marmota_rest::Api;

use crate::command::serve::option_values::positive;

/// The options of REST. A program with custom routes sets them itself.
#[derive(Args)]
#[command(next_help_heading = "REST")]
pub(crate) struct RestOptions {
    /// The number of rows of a list without `limit`
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = positive::<u64>)]
    page_rows_default: u64,
    /// The largest `limit` of a list
    #[arg(long, value_name = "COUNT", default_value_t = 1_000, value_parser = positive::<u64>)]
    page_rows_max: u64,
    /// The number of operations of a batch
    #[arg(long, value_name = "COUNT", default_value_t = 1_000, value_parser = positive::<usize>)]
    batch_operations_max: usize,
    /// The length of an NDJSON body, which is executed while it arrives (413)
    #[arg(long, value_name = "BYTES", default_value_t = 16 << 30, value_parser = positive::<u64>)]
    lines_bytes_max: u64,
    /// The length of a line of an NDJSON body
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20, value_parser = positive::<usize>)]
    line_bytes_max: usize,
    /// Sends answers as they are. Default: as zstd, br or gzip, by `Accept-Encoding`
    #[arg(long)]
    no_compression: bool,
}

impl RestOptions {
    /// Returns the API with these options.
    pub(crate) fn apply_to(&self, api: Api) -> Api {
        api.page_rows_default(self.page_rows_default)
            .page_rows_max(self.page_rows_max)
            .batch_operations_max(self.batch_operations_max)
            .lines_bytes_max(self.lines_bytes_max)
            .line_bytes_max(self.line_bytes_max)
            .compression(!self.no_compression)
    }
}
